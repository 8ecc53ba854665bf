//! Tests that a guest answers ICMP echo requests that are sent every two milliseconds, beginning before the
//! machine starts. A driver that lost an interrupt would stop receiving.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::load::PORT;
use super::ping::Pings;
use super::tap::Tap;
use super::{http, server_guest};
use crate::test::platform::{TestGuest, TestPlatform};

/// Time for which requests continue after the server is up.
const TIME: Duration = Duration::from_secs(5);

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let guest = platform.guest("httpd", &[]).memory(64).nic(tap.nic());
    from_power_on(&tap, &guest, |address| {
        let start = Instant::now();
        while start.elapsed() < TIME {
            http::get(address, "/bytes/20000")?;
            // Pauses, so that the guest becomes idle between requests.
            thread::sleep(Duration::from_millis(7));
        }
        Ok(())
    })
}

/// Runs an HTTP server on the tap, and pings it all the time. Runs `test` when the server is up.
pub(super) fn from_power_on(
    tap: &Tap,
    guest: &TestGuest<'_>,
    test: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<()> {
    let address = SocketAddr::from((tap.guest(), PORT));
    tap.know_guest()?;
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = Pings::start(scope, tap.guest(), &end)?;
        let pings = &mut Some(pings);
        let run = |_: &_| {
            http::get_with_retries(address, "/")?;
            pings.iter_mut().for_each(Pings::guest_is_up);
            test(address)?;
            pings.take().map_or(Ok(()), Pings::count)
        };
        let outcome = server_guest::from_power_on(guest, run, || http::exit(address));
        // After a failure, the thread of the pings still runs and must be ended.
        end.store(true, std::sync::atomic::Ordering::Release);
        outcome.map(drop)
    })
}
