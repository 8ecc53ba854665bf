//! The test ring `soak`: for a given time, one guest serves HTTP, works on files, starts threads and resolves
//! names, all at the same time. All kinds of work must make progress, and the free memory must stay as it was
//! after the first period.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hermit_machines::uhyve::Uhyve;
use hermit_toolchain::setup;

use super::dns_server::DnsServer;
use super::http::{self, Connection};
use super::path::NetworkPath;
use super::tap::{self, Tap};
use super::{load, server_guest};
use crate::bench::process::Processes;
use crate::test::images::Images;
use crate::test::platform::{Started, TestPlatform, TestVmm};
use crate::test::random::Random;
use crate::test::report::{Report, note};
use crate::test::schedule::Tests;

/// The guest.
const EXAMPLE: &str = "soak";
const PORT: u16 = 8080;
const CPUS: u32 = 4;
const MEBIBYTES: u64 = 256;

/// Address to which all names resolve.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);

/// Number of periods. The memory is measured at the end of each period. The first period fills caches.
const PERIODS: u32 = 10;

/// Minimum length of a period in which each kind of work must make progress.
const LONG_PERIOD: Duration = Duration::from_secs(60);

/// Number of kinds of work that the guest counts.
const WORKS: usize = 3;

/// Number of clients at the same time.
const CLIENTS: u64 = 6;

/// Maximum number of bytes of a response, and of the body of a request.
const MAX_RESPONSE: usize = 900_000;
const MAX_BODY: usize = 300_000;

/// Maximum pause between two requests of a client, in milliseconds.
const MAX_THOUGHT: usize = 30;

/// A byte in a response is its position modulo this number.
const CYCLE: u8 = 251;

/// Builds the guest and runs it for the given time.
pub(in crate::test) fn test(report: &mut Report, seconds: u32) -> Result<()> {
    setup::ensure()?;
    let images = Images::build_one(EXAMPLE)?;
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    let engine = uhyve.fast_engine();
    let platform = TestPlatform { vmm: TestVmm::Uhyve(uhyve, engine), images: &images };
    let time = Duration::from_secs(seconds.into());
    let mut tests = Tests::default();
    let name = format!("{platform}: {seconds} s of HTTP, files, threads and names at once");
    let is_slow = || (!platform.is_native()).then(|| "no engine works at full speed".to_owned());
    tests.add_unless(tap::reason_against().or_else(is_slow), name, || soak(&platform, time));
    report.run(tests);
    Ok(())
}

fn soak(platform: &TestPlatform<'_>, time: Duration) -> Result<()> {
    let tap = Tap::new()?;
    let host = tap.host();
    let path = NetworkPath::Tap(tap);
    let _names = DnsServer::serve_at(host, ADDRESS).context("the port of name servers")?;
    let guest = platform.guest(EXAMPLE, &[&ADDRESS.to_string()]).nameserver(host.into());
    let guest = guest.cpus(CPUS).memory(MEBIBYTES).more_time(time * 2);
    let (guest, address) = path.reach(guest, PORT)?;
    let run = |started: &Started| {
        started.has_printed(server_guest::READY.as_bytes())?;
        for_periods(address, started, time / PERIODS)
    };
    server_guest::from_power_on(&guest, run, || http::exit(address)).map(drop)
}

/// Makes requests in all periods, and measures the memory after each period.
fn for_periods(address: SocketAddr, started: &Started, time: Duration) -> Result<()> {
    let (mut first, mut before) = (None, [0; WORKS]);
    for period in 1..=PERIODS {
        let requests = request_all(address, period.into(), time)?;
        post(address, "/pause")?;
        let available = load::settled(address, load::available)?;
        let first = *first.get_or_insert(available);
        let is_released = load::is_released(address, first, load::available);
        let progress = String::from_utf8(http::get(address, "/progress")?)?;
        let progress = progress.trim();
        let host = Processes::of(started.id())?.total();
        note(format!(
            "period {period}: {requests} requests, {progress}, {available} bytes free, {host} KiB of the host"
        ));
        is_released.with_context(|| format!("period {period}"))?;
        let done = counts(progress).with_context(|| progress.to_owned())?;
        let is_stuck = done.iter().zip(before).any(|(now, before)| *now <= before);
        // In a short period on a busy machine, one kind of work may make no progress.
        ensure!(time < LONG_PERIOD || !is_stuck, "a work did not get on: {before:?}, then {progress}");
        before = done;
        post(address, "/resume")?;
    }
    ensure!(!before.contains(&0), "a work was never done: {before:?}");
    Ok(())
}

/// Returns the numbers in a response to `/progress`.
fn counts(progress: &str) -> Option<[u64; WORKS]> {
    let numbers: Vec<_> = progress.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

fn post(address: SocketAddr, path: &str) -> Result<()> {
    let response = Connection::new(address)?.ask(&format!("POST {path}"), b"")?;
    ensure!(response.status == 200, "{path}: {response:?}");
    Ok(())
}

/// Makes requests from all clients for a given time. Returns the number of requests.
fn request_all(address: SocketAddr, period: u64, time: Duration) -> Result<u64> {
    let end = Instant::now() + time;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || request_some(address, Random::new(period << 32 | client), end)))
            .collect();
        let results = clients.into_iter().map(|client| client.join());
        results.map(|result| result.unwrap_or_else(|_| bail!("a client panicked"))).sum()
    })
}

/// Makes requests one after the other until `end`, most of them on the same connection. Sometimes closes a
/// connection before the response. Returns the number of requests.
fn request_some(address: SocketAddr, mut random: Random, end: Instant) -> Result<u64> {
    let (mut connection, mut requests) = (Connection::new(address)?, 0);
    while requests == 0 || Instant::now() < end {
        match random.below(10) {
            0 => {
                connection.send(&format!("GET /bytes/{}", random.below(MAX_RESPONSE)), b"")?;
                connection = Connection::new(address)?;
            }
            1..4 => send_bytes(&mut connection, random.below(MAX_BODY))?,
            // Most responses are short.
            4..8 => get_bytes(&mut connection, random.below(2_000))?,
            _ => get_bytes(&mut connection, random.below(MAX_RESPONSE))?,
        }
        requests += 1;
        thread::sleep(Duration::from_millis(u64::try_from(random.below(MAX_THOUGHT))?));
    }
    Ok(requests)
}

fn get_bytes(connection: &mut Connection, count: usize) -> Result<()> {
    let response = connection.ask(&format!("GET /bytes/{count}"), b"")?;
    ensure!(response.status == 200 && response.body == bytes(count), "{count} bytes: others arrived");
    Ok(())
}

fn send_bytes(connection: &mut Connection, count: usize) -> Result<()> {
    let body = bytes(count);
    let sum: u64 = body.iter().copied().map(u64::from).sum();
    let response = connection.ask("POST /sum", &body)?;
    let expected = format!("{count} {sum}\n");
    ensure!(response.status == 200 && response.body == expected.as_bytes(), "{response:?}, not {expected}");
    Ok(())
}

fn bytes(count: usize) -> Vec<u8> {
    (0..CYCLE).cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn progress_is_parsed() {
        assert_eq!(counts("files 12 threads 0 names 7"), Some([12, 0, 7]));
        assert_eq!(counts("files 12"), None);
    }
}
