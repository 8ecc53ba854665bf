//! Tests of bursts: more clients connect at once than the backlog of a listener holds, over a tap and through
//! a forwarded port.

use std::time::Duration;

use anyhow::Result;

use super::path::NetworkPath;
use super::tap::{self, Tap};
use super::{http, load, server_guest};
use crate::burst::{self, Pace};
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Number of clients: more than std's backlog of 128.
const CLIENTS: usize = 300;

/// Number of clients with `--long`.
const MANY_CLIENTS: usize = 5_000;

/// Time limit for all clients to be served. It only bounds how long a failed test hangs.
const LIMIT: Duration = Duration::from_secs(150);

/// The guest's memory in MiB.
const MEMORY: u64 = 512;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let clients = if long { MANY_CLIENTS } else { CLIENTS };
    // The guest drops a connection that its program has not accepted within 10 s.
    let too_slow = || platform.is_slow().then(|| "the processor is emulated".to_owned());
    let name = format!("{platform}: a burst of {clients} clients over a tap");
    tests.add_unless(tap::reason_against().or_else(too_slow), name, move || {
        burst_of(platform, &NetworkPath::Tap(Tap::new()?), clients)
    });
    let name = format!("{platform}: a burst of {clients} clients behind -p");
    tests.add_unless(too_slow(), name, move || burst_of(platform, &NetworkPath::port()?, clients));
}

/// All clients are served, twice.
fn burst_of(platform: &TestPlatform<'_>, path: &NetworkPath, clients: usize) -> Result<()> {
    let (guest, address) = path.reach(load::httpd(platform, MEMORY), load::PORT)?;
    let run = || {
        http::get_with_retries(address, "/")?;
        burst::run(address, clients, Pace::Accepted, LIMIT)?.check()?;
        burst::run(address, clients, Pace::Accepted, LIMIT)?.check()
    };
    server_guest::during(&guest, run, || http::exit(address)).map(drop)
}
