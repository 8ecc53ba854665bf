//! Tests of sockets: calls of `std::net` in a guest, and servers and clients in a guest with a peer on the
//! host.
//!
//! | module | |
//! | --- | --- |
//! | [`std_net`] | every call of `std::net`, compared with Linux |
//! | [`servers`], [`http_client`] | the servers and the client of `examples` |
//! | [`key_value`] | the service of the tutorial |
//! | [`host_loopback`] | services of the host that listen on its loopback |
//! | [`egress`] | hosts to which a guest may not connect, and ports that refuse connections |
//! | [`free_port`] | a port of the host that `run` chooses |
//! | [`load`], [`faulty_clients`] | many connections, and faulty clients; neither leaks memory |
//! | [`least_memory`] | check that `httpd` serves with little memory |
//! | [`panics`] | handlers that panic at random |
//! | [`bursts`] | more clients at once than the backlog of a listener |
//! | [`shutdown`], [`syn_flood`], [`late_peers`], [`ping_from_power_on`], [`streams`] | tests that need a tap |
//! | [`ipv6`], [`shared_interrupt`] | more tests that need a tap |
//! | [`soak`] | the test ring `soak`: all kinds of work at the same time, for hours |
//! | [`path`], [`tap`], [`server_guest`], [`http`], [`dns_server`], [`ping`], [`packets`] | support: paths between host and guest, and protocols |

mod bursts;
mod dns_server;
mod egress;
mod faulty_clients;
mod free_port;
mod host_loopback;
mod http;
mod http_client;
mod ipv6;
mod key_value;
mod late_peers;
mod least_memory;
mod load;
mod packets;
mod panics;
mod path;
mod ping;
mod ping_from_power_on;
mod server_guest;
mod servers;
mod shared_interrupt;
mod shutdown;
mod soak;
mod std_net;
mod streams;
mod syn_flood;
mod tap;

use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::Result;

pub(in crate::test) use self::least_memory::serves;
pub(in crate::test) use self::soak::test as soak;
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Timeout of a single operation on a connection. It only bounds how long a failed test hangs.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Tests of a guest on a tap, by name.
type OnATap = [(&'static str, fn(&TestPlatform<'_>) -> Result<()>)];

const SHUTDOWN: &OnATap = &[("data written before exit arrives", shutdown::test)];

const ON_A_TAP: &OnATap = &[
    ("SYN flood from unreachable addresses", syn_flood::test),
    ("500 peers that are late to complete the handshake", late_peers::test),
    ("a ping every 2 ms from power-on", ping_from_power_on::test),
    ("streams both ways", streams::test),
];

const IPV6: &OnATap = &[
    ("IPv6, configured address", ipv6::configured),
    ("IPv6, link-local address", ipv6::link_local),
    ("IPv6, router advertisement", ipv6::autoconfigured),
];

const ONLY_QEMU: &OnATap = &[("devices that share an interrupt line", shared_interrupt::test)];

/// Repeats a call while it fails with `EINTR`. A call with a timeout fails so if the process is stopped and
/// continued.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Adds all tests that this host can run.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    std_net::test(tests, platform);
    servers::test(tests, platform);
    http_client::test(tests, platform);
    key_value::test(tests, platform);
    host_loopback::test(tests, platform);
    egress::test(tests, platform);
    free_port::test(tests, platform);
    load::test(tests, platform, long);
    panics::test(tests, platform, long);
    bursts::test(tests, platform, long);
    faulty_clients::test(tests, platform);
    let reason = tap::reason_against();
    on_a_tap(tests, platform, SHUTDOWN, reason.as_deref());
    on_a_tap(tests, platform, ON_A_TAP, reason.as_deref());
    on_a_tap(tests, platform, IPV6, reason.as_deref().or(tap::reason_against_ipv6()));
    if !platform.is_uhyve() {
        on_a_tap(tests, platform, ONLY_QEMU, reason.as_deref());
    }
}

/// Adds the tests for hosts that emulate the processor.
pub(super) fn test_light<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    std_net::test_light(tests, platform, long);
    servers::test_light(tests, platform);
    bursts::test(tests, platform, false);
    on_a_tap(tests, platform, SHUTDOWN, tap::reason_against().as_deref());
}

fn on_a_tap<'a>(
    tests: &mut Tests<'a>,
    platform: &'a TestPlatform<'_>,
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
