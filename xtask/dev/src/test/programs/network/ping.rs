//! Pings without end.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, connect, ipproto, recv, send, socket};

use super::packets;

/// The time between two of them.
pub(super) const INTERVAL: Duration = Duration::from_millis(2);

/// How long the last answers may take.
const LAST: Duration = Duration::from_secs(10);

/// Of a thousand pings, how many may stay without an answer once the guest is up: the host may let frames fall while the
/// machine has no time.
const LOST: usize = 100;

/// At the end, how many in a row must not all be lost: two seconds' worth.
const LAST_ONES: usize = 1_000;

/// How many there are at least once the guest is up, and how long a busy machine may take for them.
const LEAST: usize = 1_500;
const PATIENCE: Duration = Duration::from_secs(60);

/// Room for answers while this process does not get to take them; the host's own measure is some 250.
const ROOM: usize = 8 << 20;

/// Pings that are being sent.
#[derive(Debug)]
pub(super) struct Pings<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Vec<bool>>>,
    end: &'scope AtomicBool,
    sent: Arc<AtomicUsize>,
    /// How many had been sent when the guest was up.
    early: usize,
}

impl<'scope> Pings<'scope> {
    /// Begins. They end when they are counted, or when `end` is true.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        guest: Ipv4Addr,
        end: &'scope AtomicBool,
    ) -> Result<Self> {
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
        // Only the guest's packets are of interest.
        connect(&socket, &SocketAddrV4::new(guest, 0))?;
        set_socket_recv_buffer_size_force(&socket, ROOM)?;
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        Ok(Self { thread: scope.spawn(move || ping(&socket, end, &count)), end, sent, early: 0 })
    }

    /// The guest is up. What was sent before may be lost: the host keeps some of it, which is answered late, and lets the
    /// rest fall.
    pub(super) fn guest_is_up(&mut self) {
        self.early = self.sent.load(Ordering::Acquire);
    }

    /// Ends them when there were enough. Since the guest is up all must have been answered, to the end, but for a small rest.
    pub(super) fn count(self) -> Result<()> {
        let start = Instant::now();
        while self.sent.load(Ordering::Acquire) < self.early + LEAST && start.elapsed() < PATIENCE {
            thread::sleep(INTERVAL);
        }
        self.end.store(true, Ordering::Release);
        let answered = self.thread.join().map_err(|_| anyhow::anyhow!("the pings panicked"))??;
        judge(answered.get(self.early..).unwrap_or_default())
    }
}

/// Sends and receives; which ones were answered.
fn ping(socket: &OwnedFd, end: &AtomicBool, sent: &AtomicUsize) -> Result<Vec<bool>> {
    let [low, high, ..] = process::id().to_le_bytes();
    let mark = u16::from_le_bytes([low, high]);
    let mut answered = Vec::new();
    while !end.load(Ordering::Acquire) {
        let request = packets::echo_request(mark, u32::try_from(answered.len())?);
        answered.push(false);
        // Before the machine is there, nobody can be sent anything.
        let _: rustix::io::Result<usize> = send(socket, &request, SendFlags::DONTWAIT);
        sent.store(answered.len(), Ordering::Release);
        thread::sleep(INTERVAL);
        receive(socket, mark, &mut answered);
    }
    let start = Instant::now();
    // They come in order.
    while answered.last() == Some(&false) && start.elapsed() < LAST {
        thread::sleep(INTERVAL);
        receive(socket, mark, &mut answered);
    }
    Ok(answered)
}

/// Takes all answers that are there.
fn receive(socket: &OwnedFd, mark: u16, answered: &mut [bool]) {
    let mut packet = [0; 2048];
    // An error is that there is none, or that one could not be sent.
    while let Ok((size, _)) = recv(socket, &mut packet, RecvFlags::DONTWAIT) {
        let number = packet.get(..size).and_then(|packet| packets::echo_reply(mark, packet));
        let place = number.and_then(|number| answered.get_mut(usize::try_from(number).ok()?));
        place.into_iter().for_each(|place| *place = true);
    }
}

/// Of pings to a guest that is up, whether enough were answered.
fn judge(answered: &[bool]) -> Result<()> {
    let sent = answered.len();
    ensure!(sent > LAST_ONES, "there were only {sent} pings");
    let lost = answered.iter().filter(|answered| !**answered).count();
    ensure!(lost * 1000 <= sent * LOST, "{lost} of {sent} pings to a guest that is up were lost");
    let last = answered.iter().rev().take(LAST_ONES).filter(|answered| **answered).count();
    ensure!(last * 2 > LAST_ONES, "of the last {LAST_ONES} pings {last} were answered, of {sent} in all");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LAST_ONES, judge};

    #[test]
    fn who_turns_deaf_is_found_out() {
        let pings = |parts: &[(bool, usize)]| -> Vec<bool> {
            parts.iter().flat_map(|(answered, count)| vec![*answered; *count]).collect()
        };
        judge(&pings(&[(true, 3000), (false, 20), (true, LAST_ONES)])).unwrap();
        judge(&pings(&[(true, 3000)])).unwrap();
        for parts in [
            &[][..],
            &[(false, 3000)],
            &[(false, 3000), (true, 10)],
            &[(false, 500), (true, 3000)],
            &[(true, LAST_ONES)],
            &[(true, 100_000), (false, LAST_ONES)],
            &[(true, 1000), (false, 1000), (true, 3000)],
        ] {
            judge(&pings(parts)).unwrap_err();
        }
    }
}
