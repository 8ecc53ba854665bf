//! Datagrams that the guest may answer.
//!
//! A datagram has no flag that distinguishes an answer from the first datagram of an exchange. So the filter
//! works like a stateful firewall: when a peer at a closed address sends a datagram to the guest, the filter
//! remembers the peer, and the guest may answer.

use std::collections::HashSet;
use std::mem;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Lifetime of a generation. After its last datagram, a peer is remembered for at least this time (unless
/// [`MAX_PEERS`] is exceeded), and for at most twice this time. The value is that of Linux's
/// `nf_conntrack_udp_timeout_stream`.
pub(super) const LIFETIME: Duration = Duration::from_secs(120);

/// Maximum number of peers in a generation.
pub(super) const MAX_PEERS: usize = 4096;

/// A peer that has sent a datagram to the guest, and the ports of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// Port of the guest.
    pub(super) guest: u16,
}

/// Peers in two generations. When the young generation is full or has lasted for [`LIFETIME`], it becomes the
/// old one, and the previous old generation is forgotten. So peers need no timestamps, and each operation
/// takes constant time.
#[derive(Debug, Default)]
pub(super) struct Answers {
    young: HashSet<Peer>,
    old: HashSet<Peer>,
    /// Beginning of the young generation.
    begin: Option<Instant>,
}

impl Answers {
    /// Remembers a peer.
    pub(super) fn insert(&mut self, peer: Peer, now: Instant) {
        self.age(now);
        if self.young.insert(peer) && self.young.len() >= MAX_PEERS {
            self.begin_generation(now);
        }
    }

    /// Returns true if a peer is remembered, and renews the lifetime of such a peer.
    pub(super) fn contains(&mut self, peer: Peer, now: Instant) -> bool {
        self.age(now);
        let is_known = self.young.contains(&peer) || self.old.contains(&peer);
        if is_known {
            self.insert(peer, now);
        }
        is_known
    }

    fn age(&mut self, now: Instant) {
        let age = self.begin.map(|begin| now.saturating_duration_since(begin));
        if age.is_none_or(|age| age >= LIFETIME) {
            self.begin_generation(now);
        }
        if age.is_some_and(|age| age >= 2 * LIFETIME) {
            self.old.clear();
        }
    }

    fn begin_generation(&mut self, now: Instant) {
        self.old = mem::take(&mut self.young);
        self.begin = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::{Answers, LIFETIME, MAX_PEERS, Peer};
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    fn peer(number: usize) -> Peer {
        let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap()).into();
        Peer { address, port: 9, guest: 53 }
    }

    #[test]
    fn peer_is_known_by_address_and_both_ports() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.insert(peer(1), now);
        assert!(answers.contains(peer(1), now) && !answers.contains(peer(2), now));
        assert!(!answers.contains(Peer { port: 8, ..peer(1) }, now));
        assert!(!answers.contains(Peer { guest: 54, ..peer(1) }, now));
    }

    #[test]
    fn peer_is_forgotten_after_a_while_unless_it_is_used() {
        let (mut answers, start) = (Answers::default(), Instant::now());
        answers.insert(peer(1), start);
        answers.insert(peer(2), start);
        let mut now = start;
        for _ in 0..10 {
            now += LIFETIME - Duration::from_secs(1);
            assert!(answers.contains(peer(1), now));
        }
        assert!(!answers.contains(peer(2), now));
        assert!(!answers.contains(peer(1), now + 3 * LIFETIME));
    }

    #[test]
    fn number_of_peers_is_bounded_and_the_latest_stay() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..10 * MAX_PEERS {
            answers.insert(peer(number), now);
            assert!(answers.young.len() + answers.old.len() <= 2 * MAX_PEERS);
            assert!(answers.contains(peer(number.saturating_sub(MAX_PEERS / 4)), now));
        }
        assert!(!answers.contains(peer(0), now));
    }
}
