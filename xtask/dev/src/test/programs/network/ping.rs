//! Sends ICMP echo requests at a fixed interval, and checks the replies.

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

/// Time between two requests.
pub(super) const INTERVAL: Duration = Duration::from_millis(2);

/// Maximum time from the last request until the last replies arrive.
const LAST_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepted number of lost requests per 1,000 requests to a guest that is up. A busy host may drop frames.
const MAX_LOSS: usize = 100;

/// Number of requests in the last two seconds. At least half of them must be answered.
const LAST_REQUESTS: usize = 1_000;

/// Minimum number of requests after the guest is up.
const MIN_REQUESTS: usize = 1_500;

/// Maximum time to send [`MIN_REQUESTS`] requests on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Size of the receive buffer in bytes. Replies wait there while this process does not run. The default
/// buffer has room for only about 250 replies.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A thread that sends requests and receives replies.
#[derive(Debug)]
pub(super) struct Pings<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Vec<bool>>>,
    end: &'scope AtomicBool,
    sent: Arc<AtomicUsize>,
    /// Number of requests that were sent before the guest was up.
    early: usize,
}

impl<'scope> Pings<'scope> {
    /// Starts the thread. The thread ends in [`Self::count`], or when `end` becomes true.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        guest: Ipv4Addr,
        end: &'scope AtomicBool,
    ) -> Result<Self> {
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
        // The socket is connected so that it receives only packets from the guest.
        connect(&socket, &SocketAddrV4::new(guest, 0))?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)?;
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        Ok(Self { thread: scope.spawn(move || ping(&socket, end, &count)), end, sent, early: 0 })
    }

    /// Records that the guest is up. Earlier requests may be lost, because the host queues only a few of them
    /// and drops the others.
    pub(super) fn guest_is_up(&mut self) {
        self.early = self.sent.load(Ordering::Acquire);
    }

    /// Ends the thread after enough requests. Checks that the guest has answered the requests until the end,
    /// except for the accepted loss.
    pub(super) fn count(self) -> Result<()> {
        let start = Instant::now();
        while self.sent.load(Ordering::Acquire) < self.early + MIN_REQUESTS && start.elapsed() < TIMEOUT {
            thread::sleep(INTERVAL);
        }
        self.end.store(true, Ordering::Release);
        let answered = self.thread.join().map_err(|_| anyhow::anyhow!("the pings panicked"))??;
        judge(answered.get(self.early..).unwrap_or_default())
    }
}

/// Sends requests and receives replies. Returns a flag for each request: true if it was answered.
fn ping(socket: &OwnedFd, end: &AtomicBool, sent: &AtomicUsize) -> Result<Vec<bool>> {
    let [low, high, ..] = process::id().to_le_bytes();
    let identifier = u16::from_le_bytes([low, high]);
    let mut answered = Vec::new();
    while !end.load(Ordering::Acquire) {
        let request = packets::echo_request(identifier, u32::try_from(answered.len())?);
        answered.push(false);
        // An error is ignored: sending fails as long as the tap has no carrier.
        let _: rustix::io::Result<usize> = send(socket, &request, SendFlags::DONTWAIT);
        sent.store(answered.len(), Ordering::Release);
        thread::sleep(INTERVAL);
        receive(socket, identifier, &mut answered);
    }
    let start = Instant::now();
    // Waits for the reply to the last request. Replies arrive in order, so all earlier replies have arrived
    // then.
    while answered.last() == Some(&false) && start.elapsed() < LAST_REPLY_TIMEOUT {
        thread::sleep(INTERVAL);
        receive(socket, identifier, &mut answered);
    }
    Ok(answered)
}

/// Receives all replies that have arrived.
fn receive(socket: &OwnedFd, identifier: u16, answered: &mut [bool]) {
    let mut packet = [0; 2048];
    // An error means that there is no reply, or that a request could not be sent.
    while let Ok((size, _)) = recv(socket, &mut packet, RecvFlags::DONTWAIT) {
        let number = packet.get(..size).and_then(|packet| packets::echo_reply(identifier, packet));
        let reply = number.and_then(|number| answered.get_mut(usize::try_from(number).ok()?));
        reply.into_iter().for_each(|answered| *answered = true);
    }
}

/// Checks that enough requests to a guest that is up were answered.
fn judge(answered: &[bool]) -> Result<()> {
    let sent = answered.len();
    ensure!(sent > LAST_REQUESTS, "there were only {sent} pings");
    let lost = answered.iter().filter(|answered| !**answered).count();
    ensure!(lost * 1000 <= sent * MAX_LOSS, "{lost} of {sent} pings to a guest that is up were lost");
    let last = answered.iter().rev().take(LAST_REQUESTS).filter(|answered| **answered).count();
    ensure!(
        last * 2 > LAST_REQUESTS,
        "of the last {LAST_REQUESTS} pings {last} were answered, of {sent} in all"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LAST_REQUESTS, judge};

    #[test]
    fn guest_that_stops_replying_is_detected() {
        let pings = |parts: &[(bool, usize)]| -> Vec<bool> {
            parts.iter().flat_map(|(answered, count)| vec![*answered; *count]).collect()
        };
        judge(&pings(&[(true, 3000), (false, 20), (true, LAST_REQUESTS)])).unwrap();
        judge(&pings(&[(true, 3000)])).unwrap();
        for parts in [
            &[][..],
            &[(false, 3000)],
            &[(false, 3000), (true, 10)],
            &[(false, 500), (true, 3000)],
            &[(true, LAST_REQUESTS)],
            &[(true, 100_000), (false, LAST_REQUESTS)],
            &[(true, 1000), (false, 1000), (true, 3000)],
        ] {
            judge(&pings(parts)).unwrap_err();
        }
    }
}
