//! Sockets: what `std::net` does inside of a machine, and what the host sees of servers and clients in it.
//!
//! | module | |
//! | --- | --- |
//! | [`table`] | every call of `std::net`, compared with Linux |
//! | [`services`], [`clients`] | our servers and our client, with well-behaved partners |
//! | [`load`], [`misuse`] | many connections, and clients that do not behave; neither may cost memory for good |
//! | [`farewell`], [`flood`], [`pings`], [`streams`], [`ipv6`], [`lines`] | what takes an interface of the host's own |
//! | [`way`], [`tap`], [`server`], [`http`], [`names`], [`echoes`], [`packets`] | how the host gets at a guest, and what it says there |

mod clients;
mod echoes;
mod farewell;
mod flood;
mod http;
mod ipv6;
mod lines;
mod load;
mod misuse;
mod names;
mod packets;
mod pings;
mod server;
mod services;
mod streams;
mod table;
mod tap;
mod way;

use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::Result;

use crate::test::host::Host;
use crate::test::schedule::Tests;

/// How long anything may take that a guest does at once when it is not busy.
const PATIENCE: Duration = Duration::from_secs(45);

/// Tests of a guest on an interface of the host's own.
type OnATap = [(&'static str, fn(&Host<'_>) -> Result<()>)];

const FAREWELL: &OnATap = &[("what was written before the end arrives", farewell::test)];

const ON_A_TAP: &OnATap = &[
    ("a flood of requests by nobody", flood::test),
    ("a ping every 2 ms from power-on", pings::test),
    ("streams both ways", streams::test),
];

const IPV6: &OnATap = &[
    ("IPv6, by an address that is told", ipv6::told),
    ("IPv6, by the address of the link", ipv6::link),
    ("IPv6, by a router's network", ipv6::router),
];

const ONLY_QEMU: &OnATap = &[("devices that share a line of interrupts", lines::test)];

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
pub(super) fn test<'a>(tests: &mut Tests<'a>, host: &'a Host<'_>, long: bool) {
    table::test(tests, host);
    services::test(tests, host);
    clients::test(tests, host);
    load::test(tests, host, long);
    misuse::test(tests, host);
    let reason = tap::reason_against();
    on_a_tap(tests, host, FAREWELL, reason.as_deref());
    on_a_tap(tests, host, ON_A_TAP, reason.as_deref());
    on_a_tap(tests, host, IPV6, reason.as_deref().or(tap::reason_against_ipv6()));
    if !host.is_uhyve() {
        on_a_tap(tests, host, ONLY_QEMU, reason.as_deref());
    }
}

/// Tests a little of everything, where the processor is emulated.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, host: &'a Host<'_>) {
    table::test_light(tests, host);
    services::test_light(tests, host);
    on_a_tap(tests, host, FAREWELL, tap::reason_against().as_deref());
}

fn on_a_tap<'a>(tests: &mut Tests<'a>, host: &'a Host<'_>, group: &'static OnATap, reason: Option<&str>) {
    for (name, test) in group {
        let name = format!("{host}, a tap: {name}");
        match reason {
            Some(reason) => tests.skip(name, reason),
            None => tests.add(name, move || test(host)),
        }
    }
}
