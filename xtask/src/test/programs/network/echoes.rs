//! Pings without end.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, connect, ipproto, recv, send, socket};

use super::packets;

/// The time between two of them.
pub(super) const INTERVAL: Duration = Duration::from_millis(2);

/// How long the last answers may take.
const LAST: Duration = Duration::from_secs(1);

/// Of a thousand pings, how many may stay without an answer once there has been one: the host may let frames fall
/// while the machine has no time.
const LOST: usize = 100;

/// At the end, how many in a row must not all be lost: two seconds' worth.
const LAST_ONES: usize = 1_000;

/// Pings that are being sent.
#[derive(Debug)]
pub(super) struct Pings<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Vec<bool>>>,
    end: &'scope AtomicBool,
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
        Ok(Self { thread: scope.spawn(move || ping(&socket, end)), end })
    }

    /// Ends them. From the first answer on all must have been answered, to the end, but for a small rest.
    pub(super) fn count(self) -> Result<()> {
        thread::sleep(INTERVAL);
        self.end.store(true, Ordering::Release);
        let answered = self.thread.join().map_err(|_| anyhow::anyhow!("the pings panicked"))??;
        judge(&answered)
    }
}

/// Sends and receives; which ones were answered.
fn ping(socket: &OwnedFd, end: &AtomicBool) -> Result<Vec<bool>> {
    let [low, high, ..] = process::id().to_le_bytes();
    let mark = u16::from_le_bytes([low, high]);
    let mut answered = Vec::new();
    while !end.load(Ordering::Acquire) {
        let request = packets::echo_request(mark, u32::try_from(answered.len())?);
        answered.push(false);
        // Before the machine is there, nobody can be sent anything.
        let _: rustix::io::Result<usize> = send(socket, &request, SendFlags::DONTWAIT);
        thread::sleep(INTERVAL);
        receive(socket, mark, &mut answered);
    }
    thread::sleep(LAST);
    receive(socket, mark, &mut answered);
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

fn judge(answered: &[bool]) -> Result<()> {
    let first = answered.iter().position(|answered| *answered);
    let since = answered.get(first.unwrap_or(answered.len())..).unwrap_or_default();
    ensure!(since.len() > LAST_ONES, "of {} pings the first {first:?} were not answered", answered.len());
    let lost = since.iter().filter(|answered| !**answered).count();
    ensure!(
        lost * 1000 <= since.len() * LOST,
        "{lost} of {} pings since the first answer were lost",
        since.len()
    );
    let last = since.iter().rev().take(LAST_ONES).filter(|answered| **answered).count();
    ensure!(
        last * 2 > LAST_ONES,
        "of the last {LAST_ONES} pings {last} were answered, of {} in all",
        since.len()
    );
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
        judge(&pings(&[(false, 500), (true, 3000), (false, 20), (true, LAST_ONES)])).unwrap();
        judge(&pings(&[(true, 3000)])).unwrap();
        for parts in [
            &[][..],
            &[(false, 3000)],
            &[(false, 3000), (true, 10)],
            &[(true, 100_000), (false, LAST_ONES)],
            &[(true, 1000), (false, 1000), (true, 3000)],
        ] {
            judge(&pings(parts)).unwrap_err();
        }
    }
}
