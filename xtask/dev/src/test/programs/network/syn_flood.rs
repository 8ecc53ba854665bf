//! A flood of requests for connections by nobody: it costs no more memory than is set aside for it, and keeps nobody out.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use super::load::{self, memory};
use super::path::NetworkPath;
use super::tap::Tap;
use super::{http, packets};
use crate::test::platform::Platform;

/// How long it lasts at least, and at most on a machine that is too busy to send so much.
const TIME: Duration = Duration::from_secs(5);
const MOST_TIME: Duration = Duration::from_secs(60);

/// So many at once, then a pause: ten thousand a second.
const BATCH: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// Fewer would be no flood.
const LEAST: u32 = 5_000;

/// How much of the memory it may cost while it lasts: the part that is set aside for buffers, and what goes with them.
const SHARE: u64 = 3;

/// The guest's memory, in MiB: far less than the flood would take if nobody set it bounds.
const MEMORY: u64 = 64;

pub(super) fn test(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let target = tap.guest();
    load::twice(&NetworkPath::Tap(tap), load::httpd(platform, MEMORY), |address| {
        let before = memory(address)?;
        let during = thread::scope(|scope| {
            let flood = scope.spawn(move || flood(target, load::PORT));
            let during = besieged(address, || !flood.is_finished());
            let sent = flood.join().map_err(|_| anyhow::anyhow!("the flood panicked"))??;
            ensure!(sent >= LEAST, "{sent} requests are no flood");
            during
        })?;
        ensure!(during >= before - before / SHARE, "of {before} bytes {during} are left during the flood");
        Ok(())
    })
}

/// Asks again and again while the flood lasts; the least memory that was left.
fn besieged(address: SocketAddr, lasts: impl Fn() -> bool) -> Result<u64> {
    let mut least = u64::MAX;
    while lasts() {
        let answer = http::get(address, "/bytes/10000").context("the server cannot be reached")?;
        ensure!(answer.len() == 10_000, "{} bytes", answer.len());
        least = memory(address)?.min(least);
    }
    Ok(least)
}

/// Sends requests with sources that are nobody's; how many.
fn flood(target: Ipv4Addr, port: u16) -> Result<u32> {
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < TIME || (count < LEAST && start.elapsed() < MOST_TIME) {
        for _ in 0..BATCH {
            count += 1;
            let packet = packets::syn(nobody(count), (target, port), count);
            match sendto(&socket, &packet, SendFlags::empty(), &SocketAddrV4::new(target, 0)) {
                // There is no more room on the way for now.
                Ok(_) | Err(Errno::NOBUFS) => {}
                Err(error) => return Err(error).context("a packet cannot be sent"),
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(count)
}

/// An address and a port of a network for measurements (RFC 2544), another one for each number: they jump about.
fn nobody(number: u32) -> (Ipv4Addr, u16) {
    let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    (Ipv4Addr::new(198, 18 | a & 1, b, c), u16::from_be_bytes([a | 0x80, d]))
}
