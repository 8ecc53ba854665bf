//! Tests a server whose handlers panic at random. The server must answer all other requests, and leak no
//! memory.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::http::{self, Connection};
use super::path::NetworkPath;
use super::{load, server_guest};
use crate::test::platform::TestPlatform;
use crate::test::random::Random;
use crate::test::schedule::Tests;

/// The port of `web` in the guest.
const PORT: u16 = 8080;

/// Number of clients at the same time.
const CLIENTS: usize = 8;

/// Average number of requests per request whose handler panics.
const PANIC_INTERVAL: usize = 10;

/// Number of requests.
const REQUESTS: usize = 2_000;

/// Number of requests with `--long`.
const MANY_REQUESTS: usize = 100_000;

/// Extension of the time limit of the guest.
const MORE_TIME: Duration = Duration::from_secs(300);

/// Message of the panic, without the number of notes.
const MESSAGE: &str = "this request panics, with";

/// Name of the handler in the backtrace.
const HANDLER: &str = "web::handlers::fail";

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let requests = if long { MANY_REQUESTS } else { REQUESTS };
    let name = format!("{platform}: {requests} requests of which some panic");
    tests.add(name, move || serve(platform, requests));
}

fn serve(platform: &TestPlatform<'_>, requests: usize) -> Result<()> {
    let guest = platform.guest("web", &[]).cpus(2).memory(128).more_time(MORE_TIME);
    let (guest, address) = NetworkPath::port()?.reach(guest.variable("RUST_BACKTRACE=1"), PORT)?;
    let mut panics = 0;
    let run = || {
        http::get_with_retries(address, "/health")?;
        // The first run fills caches.
        panics += request_all(address, 1, requests)?;
        let before = load::settled(address, load::available)?;
        panics += request_all(address, 2, requests)?;
        load::is_released(address, before, load::available)
    };
    let outcome = server_guest::during(&guest, run, || http::exit(address))?;
    let log = outcome.text();
    let messages = log.matches(MESSAGE).count();
    ensure!(panics > 0 && messages == panics, "{panics} requests panicked, {messages} messages were printed");
    each_panic_names_its_handler(&log)
}

/// Panics print their reports one after the other. So the text between two messages must belong to the first
/// one, and its backtrace must name the handler.
fn each_panic_names_its_handler(log: &str) -> Result<()> {
    let mut reports = log.split(MESSAGE).skip(1);
    match reports.find(|report| !report.contains(HANDLER)) {
        Some(report) => bail!("a backtrace does not name {HANDLER:?}: {MESSAGE}{report}"),
        None => Ok(()),
    }
}

/// Makes requests from all clients. Returns the number of requests whose handler panicked.
fn request_all(address: SocketAddr, seed: u64, requests: usize) -> Result<usize> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS as u64)
            .map(|client| {
                let random = Random::new(seed << 32 | client);
                scope.spawn(move || request_some(address, random, requests.div_ceil(CLIENTS)))
            })
            .collect();
        let results = clients.into_iter().map(|client| client.join());
        results.map(|result| result.unwrap_or_else(|_| bail!("a client panicked"))).sum()
    })
}

/// Makes requests one after the other. Opens a new connection after each panic. Returns the number of
/// requests whose handler panicked.
fn request_some(address: SocketAddr, mut random: Random, requests: usize) -> Result<usize> {
    let mut panics = 0;
    let mut connection = Connection::new(address)?;
    for number in 0..requests {
        if random.below(PANIC_INTERVAL) > 0 {
            let response = connection.ask("GET /health", b"")?;
            ensure!(response.status == 200, "request {number}: {response:?}");
            continue;
        }
        connection.send("GET /panic", b"")?;
        ensure!(connection.ends()?, "request {number} panics and has a response");
        panics += 1;
        connection = Connection::new(address)?;
    }
    Ok(panics)
}
