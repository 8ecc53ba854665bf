//! The neighbor table: MAC addresses of neighbors, and packets that wait for them.
//!
//! Each neighbor is solicited on its own, up to three times in three seconds. A stale one stays in use while it is
//! probed, so that a connection does not stall.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use smoltcp::wire::EthernetAddress;

/// Maximum number of known neighbors.
const MAX_NEIGHBORS: usize = 512;

/// Maximum number of neighbors in resolution, and of what waits for one.
const MAX_SOUGHT: usize = 128;
const MAX_WAITING: usize = 1024;
const MAX_FRAMES: usize = 64;

/// Maximum total size in bytes of the frames that wait.
const MAX_BYTES: usize = 1 << 20;

/// Number of solicitations before a neighbor is unreachable, and the interval between them in nanoseconds (RFC 4861,
/// section 10: `MAX_MULTICAST_SOLICIT`, `RETRANS_TIMER`).
const QUESTIONS: u8 = 3;
const RETRANS_TIMER: u64 = 1_000_000_000;

/// Time in nanoseconds within which a neighbor answers a solicitation, on a link that works.
const ANSWER_TIME: u64 = 100_000_000;

/// Time in nanoseconds for which a neighbor is reachable without confirmation (RFC 4861, section 10: `REACHABLE_TIME`),
/// and for which it stays in use after that while it is probed.
const FRESH: u64 = 30_000_000_000;
const STALE: u64 = 90_000_000_000;

#[derive(Debug)]
struct Known {
    mac: EthernetAddress,
    confirmed: u64,
    asked: u64,
}

#[derive(Debug)]
struct Sought {
    address: IpAddr,
    questions: u8,
    next: u64,
    /// Slots of connections that have something to send.
    connections: Vec<u32>,
    /// Frames that lack only the destination MAC address.
    frames: Vec<Vec<u8>>,
}

impl Sought {
    fn waited(self) -> Waited {
        Waited { connections: self.connections, frames: self.frames }
    }
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Known(EthernetAddress),
    /// Stale: usable, but to be probed.
    Ask(EthernetAddress),
    Unknown,
}

/// Connections and frames that waited for a neighbor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) connections: Vec<u32>,
    pub(crate) frames: Vec<Vec<u8>>,
}

/// Action for a neighbor that has not answered in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Ask(IpAddr),
    GiveUp(Waited),
}

/// The neighbor table.
#[derive(Debug)]
pub(crate) struct Neighbors {
    known: HashMap<IpAddr, Known, FixedState>,
    /// Neighbors in resolution. All have the same interval, so the queue is in order of deadlines.
    sought: VecDeque<Sought>,
}

impl Neighbors {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { known: HashMap::with_hasher(FixedState::with_seed(seed)), sought: VecDeque::new() }
    }

    /// Looks up the MAC address of a neighbor.
    pub(crate) fn lookup(&mut self, address: IpAddr, now: u64) -> Answer {
        let Some(known) = self.known.get_mut(&address) else { return Answer::Unknown };
        let age = now.saturating_sub(known.confirmed);
        if age < FRESH {
            return Answer::Known(known.mac);
        }
        if age >= STALE {
            self.known.remove(&address);
            return Answer::Unknown;
        }
        if now.saturating_sub(known.asked) < RETRANS_TIMER {
            return Answer::Known(known.mac);
        }
        known.asked = now;
        Answer::Ask(known.mac)
    }

    /// Sets the MAC address of a neighbor; returns what waited for it.
    pub(crate) fn learn(&mut self, address: IpAddr, mac: EthernetAddress, now: u64) -> Waited {
        if self.known.len() >= MAX_NEIGHBORS && !self.known.contains_key(&address) {
            self.evict(now);
        }
        if self.known.try_reserve(1).is_ok() {
            self.known.insert(address, Known { mac, confirmed: now, asked: 0 });
        }
        let place = self.sought.iter().position(|sought| sought.address == address);
        place.and_then(|place| self.sought.remove(place)).map(Sought::waited).unwrap_or_default()
    }

    /// Confirms that a neighbor is reachable at the known MAC address.
    pub(crate) fn confirm(&mut self, address: IpAddr, mac: EthernetAddress, now: u64) {
        if let Some(known) = self.known.get_mut(&address).filter(|known| known.mac == mac) {
            known.confirmed = now;
        }
    }

    /// Removes expired neighbors, or all if none is expired. The table is small.
    fn evict(&mut self, now: u64) {
        self.known.retain(|_, known| now.saturating_sub(known.confirmed) < FRESH);
        if self.known.len() >= MAX_NEIGHBORS {
            self.known.clear();
        }
    }

    /// Queues a connection until [`learn`](Self::learn) or [`due`](Self::due) returns it. Returns whether a
    /// solicitation is to be sent now.
    pub(crate) fn await_connection(&mut self, address: IpAddr, slot: u32, now: u64) -> bool {
        let Some((sought, is_new)) = self.seek(address, now) else { return false };
        if !sought.connections.contains(&slot)
            && sought.connections.len() < MAX_WAITING
            && sought.connections.try_reserve(1).is_ok()
        {
            sought.connections.push(slot);
        }
        is_new
    }

    /// Queues a frame, up to a limit. Returns whether a solicitation is to be sent now.
    pub(crate) fn await_frame(&mut self, address: IpAddr, frame: Vec<u8>, now: u64) -> bool {
        let waiting: usize = self.sought.iter().flat_map(|sought| &sought.frames).map(Vec::len).sum();
        let has_room = waiting + frame.len() <= MAX_BYTES;
        let Some((sought, is_new)) = self.seek(address, now) else { return false };
        if has_room && sought.frames.len() < MAX_FRAMES && sought.frames.try_reserve(1).is_ok() {
            sought.frames.push(frame);
        }
        is_new
    }

    /// Whether frames wait for a neighbor that may still answer the first solicitation: one that is there does so within
    /// [`ANSWER_TIME`]. The neighbors in resolution are few.
    pub(crate) fn may_send_frames(&self, now: u64) -> bool {
        let is_recent = |sought: &Sought| {
            let first = sought.next.saturating_sub(RETRANS_TIMER);
            sought.questions == 1 && now.saturating_sub(first) < ANSWER_TIME
        };
        self.sought.iter().any(|sought| !sought.frames.is_empty() && is_recent(sought))
    }

    fn seek(&mut self, address: IpAddr, now: u64) -> Option<(&mut Sought, bool)> {
        let place = self.sought.iter().position(|sought| sought.address == address);
        let is_new = place.is_none();
        if is_new {
            if self.sought.len() >= MAX_SOUGHT || self.sought.try_reserve(1).is_err() {
                return None;
            }
            let next = now.saturating_add(RETRANS_TIMER);
            let (connections, frames) = (Vec::new(), Vec::new());
            self.sought.push_back(Sought { address, questions: 1, next, connections, frames });
        }
        let place = place.unwrap_or(self.sought.len() - 1);
        self.sought.get_mut(place).map(|sought| (sought, is_new))
    }

    /// Time of the next solicitation or failure.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.sought.front().map(|sought| sought.next)
    }

    /// The next action that is due.
    pub(crate) fn due(&mut self, now: u64) -> Option<Due> {
        let mut sought = self.sought.pop_front_if(|sought| sought.next <= now)?;
        if sought.questions == QUESTIONS {
            return Some(Due::GiveUp(sought.waited()));
        }
        sought.questions += 1;
        sought.next = now.saturating_add(RETRANS_TIMER);
        let address = sought.address;
        // The queue has capacity: the element was in it.
        self.sought.push_back(sought);
        Some(Due::Ask(address))
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Due, FRESH, MAX_NEIGHBORS, Neighbors, RETRANS_TIMER, STALE, Waited};
    use core::net::IpAddr;
    use smoltcp::wire::EthernetAddress;
    use std::vec;

    const ADDRESS: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);

    #[test]
    fn learn_returns_what_waited() {
        let mut neighbors = Neighbors::new(1);
        assert_eq!(neighbors.lookup(ADDRESS, 0), Answer::Unknown);
        assert!(neighbors.await_connection(ADDRESS, 7, 0));
        assert!(!neighbors.await_connection(ADDRESS, 7, 0));
        assert!(!neighbors.await_frame(ADDRESS, vec![1], 0));
        let waited = neighbors.learn(ADDRESS, MAC, 5);
        assert_eq!(waited, Waited { connections: vec![7], frames: vec![vec![1]] });
        assert_eq!(neighbors.lookup(ADDRESS, 6), Answer::Known(MAC));
        assert_eq!(neighbors.deadline(), None);
    }

    #[test]
    fn neighbors_are_solicited_in_order_of_deadline() {
        let address = |number| IpAddr::V4(core::net::Ipv4Addr::from_bits(number));
        let mut neighbors = Neighbors::new(1);
        for number in 0..4 {
            assert!(neighbors.await_connection(address(number), 7, number.into()));
        }
        // One neighbor answers.
        neighbors.learn(address(0), MAC, 4);
        assert_eq!(neighbors.due(RETRANS_TIMER + 1), Some(Due::Ask(address(1))));
        assert_eq!((neighbors.deadline(), neighbors.due(RETRANS_TIMER + 1)), (Some(RETRANS_TIMER + 2), None));
        assert_eq!(neighbors.due(RETRANS_TIMER + 5), Some(Due::Ask(address(2))));
        assert_eq!(neighbors.due(RETRANS_TIMER + 5), Some(Due::Ask(address(3))));
        assert_eq!(
            (neighbors.deadline(), neighbors.due(2 * RETRANS_TIMER)),
            (Some(2 * RETRANS_TIMER + 1), None)
        );
    }

    #[test]
    fn neighbor_fails_after_three_solicitations() {
        let mut neighbors = Neighbors::new(1);
        assert!(neighbors.await_connection(ADDRESS, 7, 0));
        assert_eq!((neighbors.deadline(), neighbors.due(RETRANS_TIMER - 1)), (Some(RETRANS_TIMER), None));
        assert_eq!(neighbors.due(RETRANS_TIMER), Some(Due::Ask(ADDRESS)));
        assert_eq!(neighbors.due(2 * RETRANS_TIMER), Some(Due::Ask(ADDRESS)));
        let waited = Waited { connections: vec![7], frames: vec![] };
        assert_eq!(neighbors.due(3 * RETRANS_TIMER), Some(Due::GiveUp(waited)));
        assert_eq!(neighbors.due(9 * RETRANS_TIMER), None);
    }

    #[test]
    fn stale_neighbor_is_used_while_it_is_probed() {
        let mut neighbors = Neighbors::new(1);
        neighbors.learn(ADDRESS, MAC, 0);
        assert_eq!(neighbors.lookup(ADDRESS, FRESH), Answer::Ask(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, FRESH + 1), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, FRESH + RETRANS_TIMER), Answer::Ask(MAC));
        neighbors.learn(ADDRESS, MAC, STALE - 1);
        assert_eq!(neighbors.lookup(ADDRESS, STALE + 1), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, 2 * STALE), Answer::Unknown);
    }

    #[test]
    fn neighbors_are_bounded() {
        let mut neighbors = Neighbors::new(1);
        for number in 0..if cfg!(miri) { 1_100 } else { 10_000_u32 } {
            neighbors.learn(core::net::Ipv4Addr::from_bits(number).into(), MAC, 0);
            neighbors.await_frame(core::net::Ipv4Addr::from_bits(!number).into(), vec![], 0);
        }
        assert!(neighbors.known.len() <= MAX_NEIGHBORS && neighbors.sought.len() <= super::MAX_SOUGHT);
    }
}
