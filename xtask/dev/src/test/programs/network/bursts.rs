//! Bursts: more clients at once than the backlog of a listener.
//!
//! Over a tap if there can be one. With `--long`, through passt, whose version of 2023-03 (Debian 12) loops for ever when it receives a SYN-ACK and its
//! repetition together: so they are after a pause of the host for a second. CI must not depend on that.

use std::time::Duration;

use anyhow::Result;

use super::path::{self, NetworkPath};
use super::{http, load, server_guest, tap};
use crate::burst::{self, Pace};
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Number of clients: more than std's backlog of 128.
const CLIENTS: usize = 300;

/// Number of clients with `--long`.
const MANY_CLIENTS: usize = 5_000;

/// Limit of the time until all clients are served. It only bounds how long a failed test hangs.
const LIMIT: Duration = Duration::from_secs(150);

/// The guest's memory in MiB.
const MEMORY: u64 = 512;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let clients = if long { MANY_CLIENTS } else { CLIENTS };
    let name = format!("{platform}: a burst of {clients} clients");
    // passt resets a connection that the guest does not accept within 10 s.
    let too_slow = platform.is_slow().then(|| "the processor is emulated".to_owned());
    let is_direct = !long && tap::reason_against().is_none();
    let reason = if is_direct { None } else { path::reason_against_passt() };
    tests.add_unless(too_slow.or(reason), name, move || {
        let path = if is_direct { NetworkPath::best()? } else { NetworkPath::port()? };
        burst_of(platform, &path, clients)
    });
}

/// All clients are served, twice.
fn burst_of(platform: &TestPlatform<'_>, path: &NetworkPath, clients: usize) -> Result<()> {
    let (guest, address) = path.reach(load::httpd(platform, MEMORY).passt(), load::PORT)?;
    let run = || {
        http::get_with_retries(address, "/")?;
        burst::run(address, clients, Pace::Accepted, LIMIT)?.check()?;
        burst::run(address, clients, Pace::Accepted, LIMIT)?.check()
    };
    server_guest::during(&guest, run, || http::exit(address)).map(drop)
}
