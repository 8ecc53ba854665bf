//! Tests a SYN flood from addresses that do not answer. The flood must use only a bounded part of the memory,
//! and other clients must be served.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::load::{self, available};
use super::path::NetworkPath;
use super::tap::Tap;
use super::{http, packets};
use crate::test::platform::TestPlatform;

/// Duration of the flood.
const TIME: Duration = Duration::from_secs(5);

/// Maximum duration on a machine that is too busy to send [`MIN_SEGMENTS`] in [`TIME`].
const MAX_TIME: Duration = Duration::from_secs(120);

/// Number of segments that are sent at once, and the pause after them. Together they yield ten thousand
/// segments per second.
const BATCH: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// Minimum number of segments.
const MIN_SEGMENTS: u32 = 5_000;

/// The flood may use at most the memory divided by this number, for the budget of buffers and their
/// management.
const SHARE: u64 = 3;

/// The guest's memory in MiB. It is far less than an unbounded backlog would need.
const MEMORY: u64 = 64;

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let target = tap.guest();
    load::twice(&NetworkPath::Tap(tap), load::httpd(platform, MEMORY), |address| {
        let before = available(address)?;
        let during = thread::scope(|scope| {
            let flood = scope.spawn(move || flood(target, load::PORT));
            let during = serve_during(address, || !flood.is_finished());
            let sent = flood.join().map_err(|_| anyhow::anyhow!("the flood panicked"))??;
            ensure!(sent >= MIN_SEGMENTS, "{sent} requests are no flood");
            during
        })?;
        ensure!(during >= before - before / SHARE, "of {before} bytes {during} are left during the flood");
        Ok(())
    })
}

/// Sends requests while `lasts` returns true. Returns the smallest free memory.
fn serve_during(address: SocketAddr, lasts: impl Fn() -> bool) -> Result<u64> {
    let mut least = u64::MAX;
    while lasts() {
        let answer = http::get(address, "/bytes/10000").context("the server cannot be reached")?;
        ensure!(answer.len() == 10_000, "{} bytes", answer.len());
        least = available(address)?.min(least);
    }
    Ok(least)
}

/// Sends SYN segments from addresses that do not answer. Returns the number of segments.
fn flood(target: Ipv4Addr, port: u16) -> Result<u32> {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < TIME || (count < MIN_SEGMENTS && start.elapsed() < MAX_TIME) {
        for _ in 0..BATCH {
            count += 1;
            let packet = packets::syn(source(count), (target, port), count);
            match sendto(&socket, &packet, SendFlags::empty(), &SocketAddrV4::new(target, 0)) {
                // With `ENOBUFS`, the transmit queue is full, and the packet is lost.
                Ok(_) | Err(Errno::NOBUFS) => {}
                Err(error) => return Err(error).context("a packet cannot be sent"),
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(count)
}

/// Returns an address in the benchmarking network (RFC 2544) and a port. They differ for each number, and are
/// not consecutive.
fn source(number: u32) -> (Ipv4Addr, u16) {
    let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    (Ipv4Addr::new(198, 18 | a & 1, b, c), u16::from_be_bytes([a | 0x80, d]))
}
