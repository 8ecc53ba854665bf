//! Sockets: what `std::net` does inside of a machine, and what the host sees of servers and clients in it.
//!
//! | module | |
//! | --- | --- |
//! | [`std_net`] | every call of `std::net`, compared with Linux |
//! | [`servers`], [`http_client`] | our servers and our client, with well-behaved partners |
//! | [`load`], [`faulty_clients`] | many connections, and clients that do not behave; neither may cost memory for good |
//! | [`shutdown`], [`syn_flood`], [`ping_from_power_on`], [`streams`], [`ipv6`], [`shared_interrupt`] | what takes an interface of the host's own |
//! | [`path`], [`tap`], [`server_guest`], [`http`], [`dns_server`], [`ping`], [`packets`] | how the host gets at a guest, and what it says there |

mod dns_server;
mod faulty_clients;
mod http;
mod http_client;
mod ipv6;
mod load;
mod packets;
mod path;
mod ping;
mod ping_from_power_on;
mod server_guest;
mod servers;
mod shared_interrupt;
mod shutdown;
mod std_net;
mod streams;
mod syn_flood;
mod tap;

use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::Result;

use crate::test::platform::Platform;
use crate::test::schedule::Tests;

/// How long anything may take that a guest does at once when it is not busy.
const PATIENCE: Duration = Duration::from_secs(45);

/// Tests of a guest on an interface of the host's own.
type OnATap = [(&'static str, fn(&Platform<'_>) -> Result<()>)];

const FAREWELL: &OnATap = &[("what was written before the end arrives", shutdown::test)];

const ON_A_TAP: &OnATap = &[
    ("a flood of requests by nobody", syn_flood::test),
    ("a ping every 2 ms from power-on", ping_from_power_on::test),
    ("streams both ways", streams::test),
];

const IPV6: &OnATap = &[
    ("IPv6, by an address that is told", ipv6::told),
    ("IPv6, by the address of the link", ipv6::link),
    ("IPv6, by a router's network", ipv6::router),
];

const ONLY_QEMU: &OnATap = &[("devices that share a line of interrupts", shared_interrupt::test)];

/// Repeats a call while it is interrupted: one with a time limit is, where the host's processes are stopped and go on.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Tests everything that the host can be used for.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>, long: bool) {
    std_net::test(tests, platform);
    servers::test(tests, platform);
    http_client::test(tests, platform);
    load::test(tests, platform, long);
    faulty_clients::test(tests, platform);
    let reason = tap::reason_against();
    on_a_tap(tests, platform, FAREWELL, reason.as_deref());
    on_a_tap(tests, platform, ON_A_TAP, reason.as_deref());
    on_a_tap(tests, platform, IPV6, reason.as_deref().or(tap::reason_against_ipv6()));
    if !platform.is_uhyve() {
        on_a_tap(tests, platform, ONLY_QEMU, reason.as_deref());
    }
}

/// Tests a little of everything, where the processor is emulated.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) {
    std_net::test_light(tests, platform);
    servers::test_light(tests, platform);
    on_a_tap(tests, platform, FAREWELL, tap::reason_against().as_deref());
}

fn on_a_tap<'a>(
    tests: &mut Tests<'a>,
    platform: &'a Platform<'_>,
    group: &'static OnATap,
    reason: Option<&str>,
) {
    for (name, test) in group {
        let name = format!("{platform}, a tap: {name}");
        match reason {
            Some(reason) => tests.skip(name, reason),
            None => tests.add(name, move || test(platform)),
        }
    }
}
