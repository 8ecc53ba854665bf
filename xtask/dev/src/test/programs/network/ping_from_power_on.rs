//! A ping every two milliseconds from before the machine is switched on: a guest that loses an interrupt is deaf for good.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::load::PORT;
use super::ping::Pings;
use super::tap::Tap;
use super::{http, server_guest};
use crate::test::platform::{Guest, Platform};

/// How long it goes on when the server answers.
const TIME: Duration = Duration::from_secs(5);

pub(super) fn test(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let guest = platform.guest("httpd", &[]).memory(64).nic(tap.nic());
    from_power_on(&tap, &guest, |address| {
        let start = Instant::now();
        while start.elapsed() < TIME {
            http::get(address, "/bytes/20000")?;
            // It is to be idle, too.
            thread::sleep(Duration::from_millis(7));
        }
        Ok(())
    })
}

/// Runs a guest that serves HTTP on the tap, with a test for when it answers, and pings all the time.
pub(super) fn from_power_on(
    tap: &Tap,
    guest: &Guest<'_>,
    test: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<()> {
    let address = SocketAddr::from((tap.guest(), PORT));
    tap.know_guest()?;
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = Pings::start(scope, tap.guest(), &end)?;
        let pings = &mut Some(pings);
        let run = |_: &_| {
            http::get_patiently(address, "/")?;
            pings.iter_mut().for_each(Pings::guest_is_up);
            test(address)?;
            pings.take().map_or(Ok(()), Pings::count)
        };
        let outcome = server_guest::from_power_on(guest, run, || http::exit(address));
        // If it has come to nothing they are still there.
        end.store(true, std::sync::atomic::Ordering::Release);
        outcome.map(drop)
    })
}
