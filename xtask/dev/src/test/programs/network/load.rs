//! Tests of many connections, at the same time and one after the other. They must not leak memory.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http::{self, Connection};
use super::path::NetworkPath;
use super::server_guest;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// The port of `httpd` in the guest.
pub(super) const PORT: u16 = 8080;

/// Number of connections at the same time.
const AT_ONCE: usize = 1_000;

/// Number of file descriptors for [`AT_ONCE`] connections, which is above the usual limit.
const DESCRIPTORS: u64 = 4_096;

/// Number of connections one after the other.
const IN_A_ROW: usize = 10_000;

/// Number of connections one after the other if the processor is emulated.
const FEW_IN_A_ROW: usize = 2_000;

/// Extension of the time limit of the guest.
const MORE_TIME: Duration = Duration::from_secs(240);

/// Maximum growth of a server's memory in bytes after its clients are gone, for caches and fragmentation. A
/// leaked connection would be 16 KiB or more.
const MAX_KEPT: u64 = 2 << 20;

/// Time limit for the memory to become free again. Connections stay up to 100 s, in TIME-WAIT or without a
/// response from their peer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(150);

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let in_a_row = if platform.is_native() || long { IN_A_ROW } else { FEW_IN_A_ROW };
    let name = format!("{platform}: {AT_ONCE} connections at once");
    tests.add(name, move || at_once(platform));
    let name = format!("{platform}: {in_a_row} connections in a row");
    tests.add(name, move || in_a_row_of(platform, in_a_row));
}

/// Returns a guest with a server for many clients, which has a long idle timeout.
pub(super) fn httpd<'a>(platform: &'a TestPlatform<'_>, mebibytes: u64) -> TestGuest<'a> {
    let guest = platform.guest("httpd", &[]).memory(mebibytes).more_time(MORE_TIME);
    guest.variable("HTTPD_TIMEOUT=60000").variable("HTTPD_CONNECTIONS=4096")
}

/// Runs a test twice against the same server. The first run fills caches; the second run must not use more
/// memory.
pub(super) fn twice(
    path: &NetworkPath,
    guest: TestGuest<'_>,
    test: impl Fn(SocketAddr) -> Result<()>,
) -> Result<()> {
    let (guest, address) = path.reach(guest, PORT)?;
    let run = || {
        http::get_with_retries(address, "/")?;
        test(address)?;
        let before = settled(address, available)?;
        test(address)?;
        is_released(address, before, available)
    };
    server_guest::during(&guest, run, || http::exit(address)).map(drop)
}

/// Waits until the server's free memory no longer grows, and returns its size.
pub(super) fn settled(address: SocketAddr, free: impl Fn(SocketAddr) -> Result<u64>) -> Result<u64> {
    let mut size = free(address)?;
    loop {
        thread::sleep(Duration::from_secs(1));
        let more = free(address)?;
        if more <= size {
            return Ok(size);
        }
        size = more;
    }
}

/// Waits until the server has as much free memory as before.
pub(super) fn is_released(
    address: SocketAddr,
    before: u64,
    free: impl Fn(SocketAddr) -> Result<u64>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let now = free(address)?;
        if now + MAX_KEPT >= before {
            return Ok(());
        }
        ensure!(
            start.elapsed() < RELEASE_TIMEOUT,
            "of {before} bytes {now} are left: closed connections use the rest"
        );
        thread::sleep(Duration::from_millis(500));
    }
}

/// Returns the size of the server's unused memory. All pieces count, also small ones: the connection of this
/// request itself uses chunks between free ones.
pub(super) fn available(address: SocketAddr) -> Result<u64> {
    let text = String::from_utf8(http::get_with_retries(address, "/available")?)?;
    text.trim().parse().with_context(|| text.clone())
}

fn at_once(platform: &TestPlatform<'_>) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), ..limit })
            .context("this process may not have as many descriptors as it needs")?;
    }
    twice(&NetworkPath::best()?, httpd(platform, 512), open_many)
}

/// Opens many connections, which stay open. Each connection gets one response at once, and two more when all
/// connections are open.
fn open_many(address: SocketAddr) -> Result<()> {
    let open = || {
        let mut connection = Connection::new(address)?;
        connection.ask("GET /", b"")?;
        Ok(connection)
    };
    let connections = (0..AT_ONCE).map(|_| http::with_retries(open));
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    for _ in 0..2 {
        connections.iter_mut().try_for_each(|connection| connection.send("GET /bytes/1000", b""))?;
        for (number, connection) in connections.iter_mut().enumerate() {
            let answer = connection.receive().with_context(|| format!("connection {number}"))?;
            ensure!(answer.body.len() == 1000, "{answer:?}");
        }
    }
    Ok(())
}

fn in_a_row_of(platform: &TestPlatform<'_>, count: usize) -> Result<()> {
    twice(&NetworkPath::best()?, httpd(platform, 64), |address| {
        (0..count / 2).try_for_each(|number| {
            let answer = http::get_with_retries(address, "/bytes/100");
            let answer = answer.with_context(|| format!("connection {number}"))?;
            ensure!(answer.len() == 100, "{} bytes", answer.len());
            Ok(())
        })
    })
}
