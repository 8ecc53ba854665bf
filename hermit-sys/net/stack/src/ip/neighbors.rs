//! The neighbor table: MAC addresses of neighbors, and packets that wait for them.
//!
//! To send a packet, its next hop must be resolved to a MAC address (ARP, or neighbor discovery in IPv6). An
//! unknown neighbor is solicited up to three times, one second apart. Connections and frames for it wait
//! until it answers, or until its resolution fails. A known neighbor is reachable for a time after its last
//! answer (`REACHABLE`). Then it is stale: a use also probes it, but does not wait for the answer, so that
//! connections do not stall. The tables of known and of unknown neighbors are bounded, because any host on
//! the link can fill them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use smoltcp::wire::EthernetAddress;

/// Maximum number of known neighbors.
const MAX_NEIGHBORS: usize = 512;

/// Maximum number of neighbors in resolution, and of the connections and frames that wait for each of them.
const MAX_SOUGHT: usize = 128;
const MAX_WAITING: usize = 1024;
const MAX_FRAMES: usize = 64;

/// Maximum total size in bytes of the frames that wait.
const MAX_BYTES: usize = 1 << 20;

/// Number of solicitations before a neighbor is unreachable, and the interval between them in nanoseconds
/// (RFC 4861, section 10: `MAX_MULTICAST_SOLICIT`, `RETRANS_TIMER`).
const QUESTIONS: u8 = 3;
const RETRANS_TIMER: u64 = 1_000_000_000;

/// Time in nanoseconds within which a neighbor answers a solicitation, if it is present.
const ANSWER_TIME: u64 = 100_000_000;

/// Time in nanoseconds for which a neighbor is reachable without confirmation (RFC 4861, section 10:
/// `REACHABLE_TIME`), and further time in which it is used while it is probed.
const FRESH: u64 = 30_000_000_000;
const PROBED: u64 = 60_000_000_000;

/// Delay in nanoseconds before the stack probes a neighbor that has reported its address without being asked
/// (RFC 4861, section 10: `DELAY_FIRST_PROBE_TIME`).
const DELAY: u64 = 5_000_000_000;

#[derive(Debug)]
struct Known {
    mac: EthernetAddress,
    /// Time in nanoseconds until which the neighbor is used without a probe.
    fresh_until: u64,
    /// Time in nanoseconds of the last probe.
    asked: u64,
    /// True if something was sent to the neighbor.
    is_used: bool,
}

impl Known {
    /// Creates a neighbor that has answered (`REACHABLE`), or that has reported its address without being
    /// asked (`STALE`).
    const fn new(mac: EthernetAddress, has_answered: bool, now: u64) -> Self {
        let time = if has_answered { FRESH } else { DELAY };
        Self { mac, fresh_until: now.saturating_add(time), asked: 0, is_used: false }
    }

    const fn is_expired(&self, now: u64) -> bool {
        now >= self.fresh_until.saturating_add(PROBED)
    }
}

/// A neighbor advertisement, or an ARP reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advert {
    /// MAC address in the advertisement. `None` if the sender answered a unicast solicitation (RFC 4861,
    /// section 7.2.4).
    pub(crate) mac: Option<EthernetAddress>,
    /// MAC address of the sender, from the Ethernet header.
    pub(crate) from: EthernetAddress,
    /// True if it answers a solicitation.
    pub(crate) is_solicited: bool,
    /// True if it may replace another MAC address.
    pub(crate) is_override: bool,
}

#[derive(Debug)]
struct Sought {
    address: IpAddr,
    questions: u8,
    next: u64,
    /// Slots of connections that wait for the neighbor.
    connections: Vec<u32>,
    /// Frames that are complete except for the destination MAC address.
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
    /// Stale: usable, but must be probed.
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
    /// Neighbors in resolution. All have the same interval, so the queue is sorted by deadline.
    sought: VecDeque<Sought>,
    /// Total size in bytes of the waiting frames.
    bytes: usize,
}

impl Neighbors {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { known: HashMap::with_hasher(FixedState::with_seed(seed)), sought: VecDeque::new(), bytes: 0 }
    }

    /// Looks up the MAC address of a neighbor.
    pub(crate) fn lookup(&mut self, address: IpAddr, now: u64) -> Answer {
        let Some(known) = self.known.get_mut(&address) else { return Answer::Unknown };
        if now < known.fresh_until {
            known.is_used = true;
            return Answer::Known(known.mac);
        }
        if known.is_expired(now) {
            self.known.remove(&address);
            return Answer::Unknown;
        }
        known.is_used = true;
        if now.saturating_sub(known.asked) < RETRANS_TIMER {
            return Answer::Known(known.mac);
        }
        known.asked = now;
        Answer::Ask(known.mac)
    }

    /// Stores the MAC address of a neighbor that asks for this host. The neighbor is stale until it has
    /// answered a solicitation (RFC 4861, section 7.2.3). Returns the connections and frames that waited for
    /// it. In a full table, another neighbor is evicted, but none of the `gateways`.
    pub(crate) fn learn(
        &mut self,
        address: IpAddr,
        mac: EthernetAddress,
        gateways: &[IpAddr],
        now: u64,
    ) -> Waited {
        if self.known.get(&address).is_none_or(|known| known.mac != mac) {
            self.insert(address, Known::new(mac, false, now), gateways, now);
        }
        self.take_sought(address)
    }

    /// Handles an advertisement. Updates only neighbors that are known or in resolution (RFC 4861, section
    /// 7.2.5). Returns the MAC address of a resolved neighbor, and the connections and frames that waited for
    /// it.
    pub(crate) fn advertised(
        &mut self,
        address: IpAddr,
        advert: Advert,
        gateways: &[IpAddr],
        now: u64,
    ) -> Option<(EthernetAddress, Waited)> {
        let Advert { mac, from, is_solicited, is_override } = advert;
        if let Some(known) = self.known.get_mut(&address) {
            match mac {
                // An advertisement without a MAC address confirms the known address only if it was sent from
                // that address.
                None if from != known.mac => (),
                // Two hosts claim the IP address: the next use probes the known MAC address.
                Some(mac) if mac != known.mac && !is_override => {
                    known.fresh_until = known.fresh_until.min(now);
                }
                Some(mac) if mac != known.mac => {
                    let is_used = known.is_used;
                    *known = Known { is_used, ..Known::new(mac, is_solicited, now) };
                }
                _ if is_solicited => known.fresh_until = now.saturating_add(FRESH),
                _ => (),
            }
            return None;
        }
        let mac = mac.filter(|_| self.sought.iter().any(|sought| sought.address == address))?;
        self.insert(address, Known::new(mac, is_solicited, now), gateways, now);
        Some((mac, self.take_sought(address)))
    }

    /// Inserts a neighbor. If the table is full, the new neighbor replaces the oldest one, preferably one
    /// that was never used, and never a gateway.
    fn insert(&mut self, address: IpAddr, neighbor: Known, gateways: &[IpAddr], now: u64) {
        if self.known.len() >= MAX_NEIGHBORS && !self.known.contains_key(&address) {
            let others = self.known.iter().filter(|(address, _)| !gateways.contains(address));
            let rank = |known: &Known| (known.is_used && !known.is_expired(now), known.fresh_until);
            let oldest = others.min_by_key(|(_, known)| rank(known)).map(|(&oldest, _)| oldest);
            let Some(oldest) = oldest else { return };
            self.known.remove(&oldest);
        }
        if self.known.try_reserve(1).is_ok() {
            self.known.insert(address, neighbor);
        }
    }

    /// Ends the resolution of a neighbor; returns the connections and frames that waited for it.
    fn take_sought(&mut self, address: IpAddr) -> Waited {
        let place = self.sought.iter().position(|sought| sought.address == address);
        let sought = place.and_then(|place| self.sought.remove(place));
        sought.map(|sought| self.end(sought)).unwrap_or_default()
    }

    fn end(&mut self, sought: Sought) -> Waited {
        self.bytes -= sought.frames.iter().map(Vec::len).sum::<usize>();
        sought.waited()
    }

    /// Queues a connection until [`learn`](Self::learn), [`advertised`](Self::advertised) or
    /// [`due`](Self::due) returns it. Returns true if a solicitation must be sent now.
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

    /// Queues a frame, up to a limit. Returns true if a solicitation must be sent now.
    pub(crate) fn await_frame(&mut self, address: IpAddr, frame: Vec<u8>, now: u64) -> bool {
        let bytes = self.bytes + frame.len();
        let Some((sought, is_new)) = self.seek(address, now) else { return false };
        let has_room = bytes <= MAX_BYTES && sought.frames.len() < MAX_FRAMES;
        if has_room && sought.frames.try_reserve(1).is_ok() {
            sought.frames.push(frame);
            self.bytes = bytes;
        }
        is_new
    }

    /// True if frames wait for a neighbor that may still answer the first solicitation. A neighbor that is
    /// present answers within [`ANSWER_TIME`]. Few neighbors are in resolution, so all are checked.
    pub(crate) fn may_send_frames(&self, now: u64) -> bool {
        let is_recent = |sought: &Sought| {
            let first = sought.next.saturating_sub(RETRANS_TIMER);
            sought.questions == 1 && now.saturating_sub(first) < ANSWER_TIME
        };
        self.sought.iter().any(|sought| !sought.frames.is_empty() && is_recent(sought))
    }

    /// Returns the entry of a neighbor in resolution, and true if the entry is new. In a full table, a new
    /// entry replaces the oldest one. A neighbor that is present has answered by then, so a flood of packets
    /// to absent neighbors does not prevent the resolution of others. Connections of the replaced entry try
    /// again, and its frames are lost.
    fn seek(&mut self, address: IpAddr, now: u64) -> Option<(&mut Sought, bool)> {
        let place = self.sought.iter().position(|sought| sought.address == address);
        let is_new = place.is_none();
        if is_new {
            if self.sought.len() >= MAX_SOUGHT
                && let Some(oldest) = self.sought.pop_front()
            {
                self.end(oldest);
            }
            self.sought.try_reserve(1).ok()?;
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

    /// Returns the next action that is due.
    pub(crate) fn due(&mut self, now: u64) -> Option<Due> {
        let mut sought = self.sought.pop_front_if(|sought| sought.next <= now)?;
        if sought.questions == QUESTIONS {
            return Some(Due::GiveUp(self.end(sought)));
        }
        sought.questions += 1;
        sought.next = now.saturating_add(RETRANS_TIMER);
        let address = sought.address;
        // Cannot allocate: the element was in the queue before.
        self.sought.push_back(sought);
        Some(Due::Ask(address))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Advert, Answer, DELAY, Due, FRESH, MAX_NEIGHBORS, MAX_SOUGHT, Neighbors, PROBED, RETRANS_TIMER,
        Waited,
    };
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use smoltcp::wire::EthernetAddress;
    use std::vec::Vec;

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254));
    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
    const OTHER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 10]);

    /// The answer of a neighbor to a solicitation.
    const ANSWER: Advert = Advert { mac: Some(MAC), from: MAC, is_solicited: true, is_override: true };

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    /// Resolves a neighbor.
    fn resolve(neighbors: &mut Neighbors, address: IpAddr, now: u64) {
        neighbors.await_connection(address, 7, now);
        assert!(neighbors.advertised(address, ANSWER, &[GATEWAY], now).is_some());
    }

    #[test]
    fn learn_returns_what_waited() {
        let mut neighbors = Neighbors::new(1);
        assert_eq!(neighbors.lookup(ADDRESS, 0), Answer::Unknown);
        assert!(neighbors.await_connection(ADDRESS, 7, 0));
        assert!(!neighbors.await_connection(ADDRESS, 7, 0));
        assert!(!neighbors.await_frame(ADDRESS, [1].into(), 0));
        let waited = neighbors.learn(ADDRESS, MAC, &[], 5);
        assert_eq!(waited, Waited { connections: [7].into(), frames: [[1].into()].into() });
        assert_eq!(neighbors.lookup(ADDRESS, 6), Answer::Known(MAC));
        assert_eq!(neighbors.deadline(), None);
    }

    #[test]
    fn neighbors_are_solicited_in_order_of_deadline() {
        let mut neighbors = Neighbors::new(1);
        for number in 0..4 {
            assert!(neighbors.await_connection(address(number), 7, number.into()));
        }
        // One neighbor answers.
        neighbors.advertised(address(0), ANSWER, &[], 4);
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
        let waited = Waited { connections: [7].into(), frames: Vec::new() };
        assert_eq!(neighbors.due(3 * RETRANS_TIMER), Some(Due::GiveUp(waited)));
        assert_eq!(neighbors.due(9 * RETRANS_TIMER), None);
    }

    #[test]
    fn stale_neighbor_is_used_while_it_is_probed() {
        let mut neighbors = Neighbors::new(1);
        resolve(&mut neighbors, ADDRESS, 0);
        assert_eq!(neighbors.lookup(ADDRESS, FRESH), Answer::Ask(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, FRESH + 1), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, FRESH + RETRANS_TIMER), Answer::Ask(MAC));
        let last = FRESH + PROBED - 1;
        neighbors.advertised(ADDRESS, ANSWER, &[], last);
        assert_eq!(neighbors.lookup(ADDRESS, last + 1), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, last + FRESH + PROBED), Answer::Unknown);
    }

    #[test]
    fn neighbor_that_asks_is_probed_after_a_delay() {
        let mut neighbors = Neighbors::new(1);
        neighbors.learn(ADDRESS, MAC, &[], 0);
        assert_eq!(neighbors.lookup(ADDRESS, DELAY - 1), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(ADDRESS, DELAY), Answer::Ask(MAC));
        // It asks again, which does not count as an answer.
        neighbors.learn(ADDRESS, MAC, &[], DELAY);
        assert_eq!(neighbors.lookup(ADDRESS, DELAY + RETRANS_TIMER), Answer::Ask(MAC));
        neighbors.learn(ADDRESS, OTHER, &[], 2 * DELAY);
        assert_eq!(neighbors.lookup(ADDRESS, 2 * DELAY), Answer::Known(OTHER));
    }

    #[test]
    fn advertisement_adds_only_what_is_sought() {
        let mut neighbors = Neighbors::new(1);
        assert_eq!(neighbors.advertised(ADDRESS, ANSWER, &[], 0), None);
        assert_eq!(neighbors.lookup(ADDRESS, 0), Answer::Unknown);
        neighbors.await_connection(ADDRESS, 7, 0);
        assert_eq!(neighbors.advertised(ADDRESS, Advert { mac: None, ..ANSWER }, &[], 0), None);
        let (mac, waited) = neighbors.advertised(ADDRESS, ANSWER, &[], 0).unwrap();
        assert_eq!((mac, waited.connections), (MAC, [7].into()));
    }

    #[test]
    fn advertisement_replaces_an_address_only_with_override() {
        let mut neighbors = Neighbors::new(1);
        resolve(&mut neighbors, ADDRESS, 0);
        let other = Advert { mac: Some(OTHER), from: OTHER, is_solicited: true, is_override: false };
        neighbors.advertised(ADDRESS, other, &[], 1);
        // It makes the neighbor stale (RFC 4861, section 7.2.5).
        assert_eq!(neighbors.lookup(ADDRESS, 2 + RETRANS_TIMER), Answer::Ask(MAC));
        neighbors.advertised(ADDRESS, Advert { mac: None, ..other }, &[], 3 + RETRANS_TIMER);
        assert_eq!(neighbors.lookup(ADDRESS, 2 + 2 * RETRANS_TIMER), Answer::Ask(MAC));
        neighbors.advertised(ADDRESS, Advert { is_override: true, ..other }, &[], 3 * RETRANS_TIMER);
        assert_eq!(neighbors.lookup(ADDRESS, 3 * RETRANS_TIMER), Answer::Known(OTHER));
    }

    #[test]
    fn neighbors_in_use_and_gateways_stay_in_a_flood() {
        let mut neighbors = Neighbors::new(1);
        for address in [GATEWAY, ADDRESS] {
            resolve(&mut neighbors, address, 0);
        }
        neighbors.lookup(ADDRESS, 0);
        let count = if cfg!(miri) { 1_100 } else { 10_000_u32 };
        for number in 0..count {
            neighbors.learn(address(number), MAC, &[GATEWAY], 1);
        }
        assert_eq!(neighbors.known.len(), MAX_NEIGHBORS);
        for address in [GATEWAY, ADDRESS] {
            assert_eq!(neighbors.lookup(address, 2), Answer::Known(MAC));
        }
        // Neighbors in use are evicted one by one, too, but the gateway is not.
        for number in 0..count {
            resolve(&mut neighbors, address(count + number), 3);
            neighbors.lookup(address(count + number), 3);
        }
        assert_eq!(neighbors.lookup(GATEWAY, 4), Answer::Known(MAC));
        assert_eq!(neighbors.lookup(address(2 * count - 1), 4), Answer::Known(MAC));
    }

    #[test]
    fn neighbor_is_resolved_in_a_flood_of_others_that_do_not_answer() {
        let mut neighbors = Neighbors::new(1);
        for number in 0..1_000 {
            assert!(neighbors.await_frame(address(number), [0; 100].into(), 0));
        }
        assert!(neighbors.await_connection(ADDRESS, 7, 0));
        for number in 1_001..1_100 {
            neighbors.await_connection(address(number), 8, 0);
        }
        let (_, waited) = neighbors.advertised(ADDRESS, ANSWER, &[], 1).unwrap();
        assert_eq!(waited.connections, [7]);
        assert_eq!(neighbors.sought.len(), MAX_SOUGHT - 1);
    }

    /// Maximum number of steps of a property test.
    const STEPS: usize = if cfg!(miri) { 100 } else { 3_000 };

    proptest! {
        #[test]
        fn tables_stay_within_their_bounds(
            steps in vec((0..5_u8, 0..2_000_u32, any::<[bool; 3]>(), 0..3_000_usize), 0..STEPS),
        ) {
            let mut neighbors = Neighbors::new(1);
            for ((step, number, flags, size), now) in steps.into_iter().zip(0_u64..) {
                let [is_solicited, is_override, is_named] = flags;
                let (address, now) = (address(number), now * RETRANS_TIMER / 50);
                match step {
                    0 => drop(neighbors.learn(address, MAC, &[GATEWAY], now)),
                    1 => {
                        let mac = is_named.then_some(OTHER);
                        let advert = Advert { mac, from: OTHER, is_solicited, is_override };
                        neighbors.advertised(address, advert, &[GATEWAY], now);
                    }
                    2 => drop(neighbors.await_frame(address, std::vec![0; size], now)),
                    3 => drop(neighbors.await_connection(address, number, now)),
                    _ => while neighbors.due(now).is_some() {},
                }
                let frames = neighbors.sought.iter().flat_map(|sought| &sought.frames);
                prop_assert_eq!(frames.map(Vec::len).sum::<usize>(), neighbors.bytes);
                prop_assert!(neighbors.bytes <= super::MAX_BYTES);
                prop_assert!(neighbors.known.len() <= MAX_NEIGHBORS && neighbors.sought.len() <= MAX_SOUGHT);
            }
        }
    }
}
