//! Fragmentation and reassembly (RFC 791; RFC 8200, section 4.5).
//!
//! Fragments are collected by source, destination, protocol and identification, until they cover the whole
//! packet. The packet is then delivered as if it had been received in one frame. Any host can send fragments,
//! and most incomplete packets are never completed. Incomplete packets may therefore use only a share of the
//! memory for sockets. When they exceed it, the oldest packet is dropped, since it is the least likely to be
//! completed.

use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_base::try_alloc::{try_to_vec, try_vec};
use hermit_tcp::{Pool, Purpose};
use smoltcp::wire::IpProtocol;

use crate::collections::aging::Aging;
use crate::wire::emit::{ETHERNET, EthernetHeader, IpHeader};
use crate::wire::packet::{Fragment, Packet};

/// Maximum number of fragments of a packet: 64 KiB in fragments of the smallest MTU of IPv4, with 48 bytes
/// each.
const MAX_PARTS: usize = 65_536_usize.div_ceil(48);

/// Memory in bytes that is counted for a packet in reassembly, and for each fragment in addition to its
/// payload.
const PACKET: usize = 256;
const PART: usize = 64;

/// Divisor of the memory for sockets: packets in reassembly take at most this part of it. The minimum in
/// bytes has room for a packet of 64 KiB; the maximum is Linux's `ipfrag_high_thresh`.
const SHARE: usize = 8;
const MIN_MEMORY: usize = 192 << 10;
const MAX_MEMORY: usize = 4 << 20;

/// Reassembly timeout in nanoseconds: Linux's `ipfrag_time`.
const REASSEMBLY_TIMEOUT: u64 = 30_000_000_000;

/// The ECN field of the class, and its value CE, "congestion experienced" (RFC 3168, section 5).
const ECN_MASK: u8 = 3;
const CE: u8 = 3;

/// Maximum payload size of a packet in bytes. The 16-bit length field includes the header in IPv4, but not in
/// IPv6.
const fn max_payload(source: IpAddr) -> usize {
    if source.is_ipv4() { 65_535 - 20 } else { 65_535 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: IpProtocol,
    identification: u32,
}

impl Key {
    /// Header of the whole packet.
    const fn header(&self, size: usize, hop_limit: u8, class: u8) -> IpHeader {
        let &Self { source, destination, protocol, .. } = self;
        IpHeader { source, destination, protocol, size, hop_limit, class }
    }
}

/// A packet in reassembly.
#[derive(Debug, Default)]
struct Incomplete {
    /// Offset and payload of each fragment, sorted, without overlap.
    parts: Vec<(usize, Vec<u8>)>,
    /// Total size of the payloads in bytes.
    received: usize,
    /// Payload size in bytes of the whole packet, after the last fragment is received.
    size: Option<usize>,
    /// Hop limit and class of the first fragment, which the packet gets.
    first: Option<(u8, u8)>,
    /// Bit set of the values of the ECN field in the fragments.
    ecn: u8,
    /// Memory in bytes that is counted for this packet.
    charged: usize,
}

impl Incomplete {
    /// Adds a fragment; returns true if it is new. Returns `None` if the packet must be discarded:
    /// overlapping fragments are used to evade filters (RFC 5722).
    fn add(&mut self, fragment: Fragment, packet: &Packet<'_>) -> Option<bool> {
        let bytes = packet.payload;
        let end =
            fragment.offset.checked_add(bytes.len()).filter(|&end| end <= max_payload(packet.source))?;
        let is_cut = !fragment.is_last && !bytes.len().is_multiple_of(8);
        if is_cut || bytes.is_empty() || self.parts.len() >= MAX_PARTS {
            return None;
        }
        let place = self.parts.partition_point(|&(start, _)| start < fragment.offset);
        let before = place.checked_sub(1).and_then(|before| self.parts.get(before));
        let after = self.parts.get(place);
        if after.is_some_and(|(start, part)| *start == fragment.offset && part == bytes) {
            return Some(false);
        }
        if before.is_some_and(|(start, part)| start + part.len() > fragment.offset)
            || after.is_some_and(|&(start, _)| start < end)
            || self.size.is_some_and(|size| end > size || fragment.is_last)
            || fragment.is_last && after.is_some()
        {
            return None;
        }
        let part = try_to_vec(bytes).ok()?;
        self.parts.try_reserve(1).ok()?;
        self.parts.insert(place, (fragment.offset, part));
        self.received += bytes.len();
        self.note(fragment, end, packet);
        Some(true)
    }

    /// Stores the properties of the packet that the header of a fragment contains.
    fn note(&mut self, fragment: Fragment, end: usize, packet: &Packet<'_>) {
        let class = packet.traffic_class();
        self.ecn |= 1 << (class & ECN_MASK);
        if fragment.is_last {
            self.size = Some(end);
        }
        if fragment.offset == 0 {
            self.first = Some((packet.hop_limit(), class));
        }
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.received)
    }

    /// Class of the packet. If any fragment has CE, the packet has CE. `None`, which discards the packet, if
    /// ECN is used in some fragments and not in others, as in Linux (RFC 3168, section 5.3).
    fn class(&self, first: u8) -> Option<u8> {
        let is_mixed = self.ecn & 1 != 0 && self.ecn != 1;
        let ce = if self.ecn & (1 << CE) == 0 { 0 } else { CE };
        (!is_mixed).then_some(first | ce)
    }

    /// Builds the frame with the reassembled packet.
    fn assemble(&self, ethernet: EthernetHeader, key: &Key) -> Option<Vec<u8>> {
        let (hop_limit, class) = self.first?;
        let header = key.header(self.size?, hop_limit, self.class(class)?);
        frame(ethernet, header, &self.parts)
    }
}

/// Builds a frame with a packet. Its payload is given in parts with their offsets.
fn frame<P: AsRef<[u8]>>(
    ethernet: EthernetHeader,
    header: IpHeader,
    parts: &[(usize, P)],
) -> Option<Vec<u8>> {
    let size = ETHERNET + header.size() + header.size;
    let mut frame = try_vec(0, size).ok()?;
    let payload = header.write(ethernet.write(&mut frame));
    for (start, part) in parts {
        let part = part.as_ref();
        payload.get_mut(*start..start + part.len())?.copy_from_slice(part);
    }
    Some(frame)
}

/// Packets in reassembly.
#[derive(Debug)]
pub(crate) struct Fragments {
    packets: Aging<Key, Incomplete>,
    /// Memory in bytes that is counted for all packets.
    charged: usize,
}

impl Fragments {
    /// Creates an empty table. Its hash function depends on the seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { packets: Aging::new(seed, REASSEMBLY_TIMEOUT), charged: 0 }
    }

    /// Adds a fragment. If it was the last one missing, returns a frame with the whole packet. An atomic
    /// fragment is a whole packet, and does not affect other fragments with the same identification (RFC
    /// 6946).
    pub(crate) fn add(
        &mut self,
        ethernet: EthernetHeader,
        packet: &Packet<'_>,
        pool: &mut Pool,
        now: u64,
    ) -> Option<Vec<u8>> {
        let fragment = packet.fragment?;
        let key = Key {
            source: packet.source,
            destination: packet.destination,
            protocol: packet.protocol,
            identification: fragment.identification,
        };
        if fragment.offset == 0 && fragment.is_last {
            let header = key.header(packet.payload.len(), packet.hop_limit(), packet.traffic_class());
            return frame(ethernet, header, &[(0, packet.payload)]);
        }
        self.expire(pool, now);
        let incomplete = self.charge(&key, PART + packet.payload.len(), pool, now)?;
        match incomplete.add(fragment, packet) {
            Some(true) if !incomplete.is_complete() => return None,
            Some(true) => (),
            // A duplicate needs no memory.
            Some(false) => {
                incomplete.charged -= PART + packet.payload.len();
                self.refund(PART + packet.payload.len(), pool);
                return None;
            }
            None => {
                self.remove(&key, pool);
                return None;
            }
        }
        self.remove(&key, pool)?.assemble(ethernet, &key)
    }

    /// Time at which the oldest packet is dropped.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.packets.deadline()
    }

    /// Drops packets that have not been completed in time.
    pub(crate) fn expire(&mut self, pool: &mut Pool, now: u64) {
        while let Some((_, incomplete)) = self.packets.remove_expired(now) {
            self.refund(incomplete.charged, pool);
        }
    }

    /// Counts memory for a fragment of a packet, and drops the oldest packets if necessary. Returns the
    /// packet; `None` without memory.
    fn charge(&mut self, key: &Key, part: usize, pool: &mut Pool, now: u64) -> Option<&mut Incomplete> {
        let is_known = self.packets.contains(key);
        let bytes = if is_known { part } else { part + PACKET };
        let most = (pool.limit() / SHARE).clamp(MIN_MEMORY, MAX_MEMORY);
        while self.charged + bytes > most || !pool.charge(bytes, Purpose::OutOfOrder) {
            let (_, oldest) = self.packets.remove_oldest()?;
            self.refund(oldest.charged, pool);
        }
        self.charged += bytes;
        if !is_known && self.packets.insert(*key, Incomplete::default(), now).is_err() {
            self.refund(bytes, pool);
            return None;
        }
        if !self.packets.contains(key) {
            // The packet was the oldest one itself, and has been dropped.
            self.refund(bytes, pool);
        }
        let incomplete = self.packets.get_mut(key)?;
        incomplete.charged += bytes;
        Some(incomplete)
    }

    fn refund(&mut self, bytes: usize, pool: &mut Pool) {
        self.charged -= bytes;
        pool.refund(bytes);
    }

    fn remove(&mut self, key: &Key, pool: &mut Pool) -> Option<Incomplete> {
        let incomplete = self.packets.remove(key)?;
        self.refund(incomplete.charged, pool);
        Some(incomplete)
    }
}

/// Iterates over start, end and "last" flag of each fragment of a payload, with at most `room` bytes per
/// fragment.
pub(crate) fn parts(size: usize, room: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    let step = (room / 8 * 8).max(8);
    (0..size).step_by(step).map(move |start| {
        let end = (start + step).min(size);
        (start, end, end == size)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Fragments, MAX_PARTS, MIN_MEMORY, PACKET, PART, REASSEMBLY_TIMEOUT, SHARE, max_payload, parts,
    };
    use crate::wire::emit::EthernetHeader;
    use crate::wire::packet::{Fragment, Frame, Packet};
    use core::net::{IpAddr, Ipv4Addr};
    use hermit_tcp::Pool;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use smoltcp::wire::{EthernetAddress, EthernetProtocol, IpProtocol};
    use std::vec::Vec;

    const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    const ETHERNET: EthernetHeader = EthernetHeader {
        source: EthernetAddress([2, 0, 0, 0, 0, 1]),
        destination: EthernetAddress([2, 0, 0, 0, 0, 2]),
        protocol: EthernetProtocol::Ipv4,
    };

    /// Returns the start of an IPv4 header with a class and the hop limit 9.
    fn head(class: u8) -> [u8; 9] {
        [0x45, class, 0, 0, 0, 0, 0, 0, 9]
    }

    fn packet(payload: &[u8], offset: usize, is_last: bool, identification: u32) -> Packet<'_> {
        Packet {
            bytes: &[0x45, 0, 0, 0, 0, 0, 0, 0, 9],
            source: SOURCE,
            destination: [10, 0, 0, 2].into(),
            protocol: IpProtocol::Udp,
            payload,
            fragment: Some(Fragment { identification, offset, is_last }),
        }
    }

    fn whole(frame: &[u8]) -> Packet<'_> {
        Packet::parse(Frame::parse(frame).unwrap().payload).unwrap()
    }

    fn order() -> impl Strategy<Value = (usize, Vec<usize>)> {
        (2..12_usize)
            .prop_flat_map(|count| (Just(count), Just((0..count).collect::<Vec<_>>()).prop_shuffle()))
    }

    fn new() -> (Fragments, Pool) {
        (Fragments::new(1), Pool::new(if cfg!(miri) { 2 << 20 } else { 16 << 20 }))
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_with_duplicates_are_reassembled((count, order) in order(), tail in 1..16_usize) {
            let bytes = crate::testing::pattern((count - 1) * 16 + tail);
            let pieces: Vec<_> = parts(bytes.len(), 16).collect();
            prop_assert_eq!(pieces.len(), count);
            let (mut fragments, mut pool) = new();
            let mut result = None;
            for (round, &index) in order.iter().enumerate() {
                prop_assert_eq!(result.take(), None);
                let (start, end, is_last) = pieces[index];
                let part = packet(&bytes[start..end], start, is_last, 7);
                result = fragments.add(ETHERNET, &part, &mut pool, 0);
                if round + 1 < count {
                    prop_assert_eq!(fragments.add(ETHERNET, &part, &mut pool, 0), None);
                }
            }
            let frame = result.unwrap();
            let packet = whole(&frame);
            prop_assert_eq!((packet.payload, packet.fragment, packet.hop_limit()), (&bytes[..], None, 9));
            prop_assert_eq!((fragments.charged, pool.used()), (0, 0));
        }

        #[test]
        fn arbitrary_fragments_are_counted(
            parts in vec(
                (vec(any::<u8>(), 0..2000), 0..70_000_usize, any::<bool>(), 0..3_u32),
                0..if cfg!(miri) { 15 } else { 60 },
            ),
            limit in 1..1_usize << 20,
        ) {
            let (mut fragments, mut pool) = (Fragments::new(1), Pool::new(limit));
            for (bytes, offset, is_last, identification) in &parts {
                let bytes = &bytes[..bytes.len() / 8 * 8];
                let part = packet(bytes, offset / 64 * 8, *is_last, *identification);
                fragments.add(ETHERNET, &part, &mut pool, 0);
                prop_assert!(pool.used() <= limit / 2 && pool.used() <= MIN_MEMORY);
                let mut counted = 0;
                for identification in 0..3 {
                    let key = super::Key {
                        source: SOURCE,
                        destination: [10, 0, 0, 2].into(),
                        protocol: IpProtocol::Udp,
                        identification,
                    };
                    if let Some(incomplete) = fragments.packets.get_mut(&key) {
                        let parts = incomplete.parts.iter().map(|(_, part)| PART + part.len());
                        let size = PACKET + parts.sum::<usize>();
                        prop_assert_eq!(size, incomplete.charged);
                        counted += size;
                    }
                }
                prop_assert_eq!((fragments.charged, pool.used()), (counted, counted));
            }
            fragments.expire(&mut pool, REASSEMBLY_TIMEOUT);
            prop_assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn overlapping_fragments_discard_the_packet() {
        let (mut fragments, mut pool) = new();
        assert_eq!(fragments.add(ETHERNET, &packet(&[1; 16], 0, false, 1), &mut pool, 0), None);
        assert_eq!(fragments.add(ETHERNET, &packet(&[2; 16], 8, true, 1), &mut pool, 0), None);
        assert_eq!((fragments.packets.len(), pool.used()), (0, 0));
    }

    #[test]
    fn atomic_fragment_leaves_a_packet_of_the_same_identification_alone() {
        let (mut fragments, mut pool) = new();
        assert_eq!(fragments.add(ETHERNET, &packet(&[1; 16], 0, false, 1), &mut pool, 0), None);
        let atomic = fragments.add(ETHERNET, &packet(&[2; 20], 0, true, 1), &mut pool, 0).unwrap();
        assert_eq!(whole(&atomic).payload, [2; 20]);
        let frame = fragments.add(ETHERNET, &packet(&[1; 4], 16, true, 1), &mut pool, 0).unwrap();
        assert_eq!(whole(&frame).payload, [1; 20]);
    }

    #[test]
    fn largest_datagram_in_the_smallest_fragments_is_reassembled() {
        let (mut fragments, mut pool) = new();
        let bytes = crate::testing::pattern(max_payload(SOURCE));
        let pieces: Vec<_> = parts(bytes.len(), 48).collect();
        assert!(pieces.len() <= MAX_PARTS);
        // The last fragment first, which takes the most time.
        let mut frames = pieces.iter().rev().filter_map(|&(start, end, is_last)| {
            fragments.add(ETHERNET, &packet(&bytes[start..end], start, is_last, 1), &mut pool, 0)
        });
        let frame = frames.next().unwrap();
        assert!(whole(&frame).payload == bytes);
        // More fragments discard the packet, however small they are.
        for start in 0..=MAX_PARTS {
            fragments.add(ETHERNET, &packet(&[0; 8], start * 8, false, 2), &mut pool, 0);
        }
        assert_eq!((fragments.packets.len(), pool.used()), (0, 0));
    }

    #[test]
    fn class_has_ce_of_any_fragment() {
        // The classes of two fragments, and of the packet (RFC 3168, section 5.3; Linux's
        // `ip_frag_ecn_table`).
        for (first, second, expected) in [
            (0xb8, 0xb8, Some(0xb8)),
            (0xba, 0xbb, Some(0xbb)),
            (0xbb, 0xb9, Some(0xbb)),
            (0xb9, 0xba, Some(0xb9)),
            (0xbb, 0xbb, Some(0xbb)),
            (0xb8, 0xbb, None),
            (0xba, 0xb8, None),
        ] {
            let (mut fragments, mut pool) = new();
            let heads = [head(first), head(second)];
            let mut add = |index: usize, part| {
                let part = Packet { bytes: &heads[index], ..part };
                fragments.add(ETHERNET, &part, &mut pool, 0)
            };
            assert_eq!(add(1, packet(&[2; 8], 8, true, 1)), None);
            let frame = add(0, packet(&[1; 8], 0, false, 1));
            let class = frame.as_deref().map(|frame| whole(frame).traffic_class());
            assert_eq!(class, expected, "{first:#x} {second:#x}");
        }
    }

    #[test]
    fn reassembly_takes_a_share_of_the_memory_and_times_out() {
        let (mut fragments, mut pool) = new();
        let most = pool.limit() / SHARE;
        let each = PACKET + PART + 8;
        let count = u32::try_from(most / each).unwrap();
        for identification in 0..2 * count {
            let now = identification.into();
            fragments.add(ETHERNET, &packet(&[0; 8], 0, false, identification), &mut pool, now);
        }
        assert_eq!((fragments.packets.len(), pool.used()), (most / each, most / each * each));
        // The oldest packets were dropped. Each of the others can be completed.
        assert_eq!(fragments.deadline(), Some(REASSEMBLY_TIMEOUT + u64::from(count)));
        let mut end = |identification| {
            fragments.add(ETHERNET, &packet(&[0; 8], 8, true, identification), &mut pool, 1 << 20)
        };
        assert!(end(2 * count - 1).is_some() && end(count + 1).is_some() && end(0).is_none());
        fragments.expire(&mut pool, REASSEMBLY_TIMEOUT + (1 << 20));
        assert_eq!((fragments.packets.len(), pool.used(), fragments.deadline()), (0, 0, None));
    }
}
