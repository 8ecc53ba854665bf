//! Fragmentation and reassembly (RFC 791; RFC 8200, section 4.5).

use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::wire::IpProtocol;

use crate::wire::emit::IpHeader;
use crate::wire::packet::{Fragment, Packet};

/// Maximum number of packets in reassembly, and of fragments of one.
const MAX_PACKETS: usize = 16;
const MAX_PARTS: usize = 64;

/// Maximum payload size of a packet in bytes: the 16-bit length field includes the header in IPv4 only.
const fn max_payload(source: IpAddr) -> usize {
    if source.is_ipv4() { 65_535 - 20 } else { 65_535 }
}

/// Reassembly timeout in nanoseconds: Linux's `ipfrag_time`.
const REASSEMBLY_TIMEOUT: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: IpProtocol,
    identification: u32,
}

#[derive(Debug)]
struct Incomplete {
    key: Key,
    deadline: u64,
    /// Offset and payload of each fragment, sorted, without overlap.
    parts: Vec<(usize, Vec<u8>)>,
    /// Payload size in bytes of the whole packet, once the last fragment is received.
    size: Option<usize>,
}

impl Incomplete {
    /// Adds a fragment. Overlapping fragments discard the packet: they are used to evade filters (RFC 5722).
    fn add(&mut self, fragment: Fragment, bytes: &[u8]) -> Option<()> {
        let end =
            fragment.offset.checked_add(bytes.len()).filter(|&end| end <= max_payload(self.key.source))?;
        if !fragment.is_last && !bytes.len().is_multiple_of(8)
            || bytes.is_empty()
            || self.parts.len() >= MAX_PARTS
        {
            return None;
        }
        let place = self.parts.partition_point(|&(start, _)| start < fragment.offset);
        let before = place.checked_sub(1).and_then(|before| self.parts.get(before));
        let after = self.parts.get(place);
        if after.is_some_and(|(start, part)| *start == fragment.offset && part == bytes) {
            return Some(());
        }
        if before.is_some_and(|(start, part)| start + part.len() > fragment.offset)
            || after.is_some_and(|&(start, _)| start < end)
            || self.size.is_some_and(|size| end > size || fragment.is_last)
        {
            return None;
        }
        if fragment.is_last {
            if after.is_some() {
                return None;
            }
            self.size = Some(end);
        }
        let mut part = Vec::new();
        part.try_reserve_exact(bytes.len()).ok()?;
        part.extend_from_slice(bytes);
        self.parts.try_reserve(1).ok()?;
        self.parts.insert(place, (fragment.offset, part));
        Some(())
    }

    fn is_complete(&self) -> bool {
        self.size.is_some_and(|size| self.parts.iter().map(|(_, part)| part.len()).sum::<usize>() == size)
    }

    /// Builds the unfragmented packet.
    fn assemble(&self) -> Option<Vec<u8>> {
        let size = self.size?;
        let Key { source, destination, protocol, .. } = self.key;
        let header = IpHeader { source, destination, protocol, size, hop_limit: 64, class: 0 };
        let mut packet = Vec::new();
        packet.try_reserve_exact(header.size() + size).ok()?;
        packet.resize(header.size() + size, 0);
        header.write(&mut packet);
        let payload = packet.get_mut(header.size()..)?;
        for (start, part) in &self.parts {
            payload.get_mut(*start..start + part.len())?.copy_from_slice(part);
        }
        Some(packet)
    }
}

/// Packets in reassembly.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    packets: Vec<Incomplete>,
}

impl Fragments {
    /// Adds a fragment; returns the whole packet if it was the last one missing.
    pub(crate) fn add(&mut self, packet: &Packet<'_>, now: u64) -> Option<Vec<u8>> {
        let fragment = packet.fragment?;
        let key = Key {
            source: packet.source,
            destination: packet.destination,
            protocol: packet.protocol,
            identification: fragment.identification,
        };
        self.packets.retain(|packet| packet.deadline > now);
        let place = self.place(key, now)?;
        let incomplete = self.packets.get_mut(place)?;
        if incomplete.add(fragment, packet.payload).is_none() {
            self.packets.swap_remove(place);
            return None;
        }
        if !incomplete.is_complete() {
            return None;
        }
        self.packets.swap_remove(place).assemble()
    }

    fn place(&mut self, key: Key, now: u64) -> Option<usize> {
        if let Some(place) = self.packets.iter().position(|packet| packet.key == key) {
            return Some(place);
        }
        if self.packets.len() >= MAX_PACKETS {
            // The oldest packet is the least likely to be completed.
            let oldest = self.packets.iter().enumerate().min_by_key(|(_, packet)| packet.deadline);
            let oldest = oldest.map(|(place, _)| place)?;
            self.packets.swap_remove(oldest);
        }
        self.packets.try_reserve(1).ok()?;
        let deadline = now.saturating_add(REASSEMBLY_TIMEOUT);
        self.packets.push(Incomplete { key, deadline, parts: Vec::new(), size: None });
        Some(self.packets.len() - 1)
    }
}

/// Start, end and "last" flag of each fragment of a payload, with at most `room` bytes per fragment.
pub(crate) fn parts(size: usize, room: usize) -> impl Iterator<Item = (usize, usize, bool)> {
    let step = (room / 8 * 8).max(8);
    (0..size).step_by(step).map(move |start| {
        let end = (start + step).min(size);
        (start, end, end == size)
    })
}

#[cfg(test)]
mod tests {
    use super::{Fragments, MAX_PACKETS, REASSEMBLY_TIMEOUT, parts};
    use crate::wire::packet::{Fragment, Packet};
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_assert_eq, proptest};
    use smoltcp::wire::IpProtocol;
    use std::vec::Vec;

    fn packet(payload: &[u8], offset: usize, is_last: bool, identification: u32) -> Packet<'_> {
        Packet {
            bytes: &[],
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: IpProtocol::Udp,
            payload,
            fragment: Some(Fragment { identification, offset, is_last }),
        }
    }

    fn order() -> impl Strategy<Value = (usize, Vec<usize>)> {
        (1..12_usize)
            .prop_flat_map(|count| (Just(count), Just((0..count).collect::<Vec<_>>()).prop_shuffle()))
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_with_duplicates_are_reassembled((count, order) in order(), tail in 1..16_usize) {
            let whole: Vec<u8> = (0..(count - 1) * 16 + tail).map(|index| u8::try_from(index % 251).unwrap()).collect();
            let pieces: Vec<_> = parts(whole.len(), 16).collect();
            prop_assert_eq!(pieces.len(), count);
            let mut fragments = Fragments::default();
            let mut result = None;
            for (round, &index) in order.iter().enumerate() {
                prop_assert_eq!(result.take(), None);
                let (start, end, is_last) = pieces[index];
                let part = packet(&whole[start..end], start, is_last, 7);
                result = fragments.add(&part, 0);
                if round + 1 < count {
                    prop_assert_eq!(fragments.add(&part, 0), None);
                }
            }
            let bytes = result.unwrap();
            let packet = Packet::parse(&bytes).unwrap();
            prop_assert_eq!((packet.payload, packet.fragment), (&whole[..], None));
        }

        #[test]
        fn arbitrary_fragments_do_not_panic(
            parts in vec((vec(any::<u8>(), 0..40), 0..70_000_usize, any::<bool>(), 0..3_u32), 0..if cfg!(miri) { 15 } else { 60 }),
        ) {
            let mut fragments = Fragments::default();
            for (bytes, offset, is_last, identification) in &parts {
                fragments.add(&packet(bytes, offset / 8 * 8, *is_last, *identification), 0);
            }
        }
    }

    #[test]
    fn overlapping_fragments_discard_the_packet() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.add(&packet(&[1; 16], 0, false, 1), 0), None);
        assert_eq!(fragments.add(&packet(&[2; 16], 8, true, 1), 0), None);
        assert!(fragments.packets.is_empty());
    }

    #[test]
    fn reassembly_is_bounded_and_times_out() {
        let mut fragments = Fragments::default();
        for identification in 0..100 {
            fragments.add(&packet(&[0; 8], 0, false, identification), u64::from(identification));
        }
        assert_eq!(fragments.packets.len(), MAX_PACKETS);
        assert_eq!(
            fragments.packets.iter().map(|packet| packet.deadline).min(),
            Some(REASSEMBLY_TIMEOUT + 84)
        );
        fragments.add(&packet(&[0; 8], 0, false, 1), REASSEMBLY_TIMEOUT * 2);
        assert_eq!(fragments.packets.len(), 1);
    }
}
