//! Parsing of Ethernet, IP and UDP headers.

use core::net::IpAddr;

use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6ExtHeader,
    Ipv6FragmentHeader, Ipv6Packet, UdpPacket,
};

/// An Ethernet frame.
pub(crate) struct Frame<'a> {
    pub(crate) source: EthernetAddress,
    pub(crate) destination: EthernetAddress,
    pub(crate) protocol: EthernetProtocol,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let frame = EthernetFrame::new_checked(bytes).ok()?;
        Some(Self {
            source: frame.src_addr(),
            destination: frame.dst_addr(),
            protocol: frame.ethertype(),
            payload: frame.payload(),
        })
    }

    /// True if the frame is sent to a multicast or broadcast address.
    pub(crate) const fn is_to_group(&self) -> bool {
        self.destination.0[0] & 1 == 1
    }
}

/// Fragment information of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) identification: u32,
    /// Offset of the payload in the whole packet, in bytes.
    pub(crate) offset: usize,
    pub(crate) is_last: bool,
}

/// An IPv4 or IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// The packet, without the padding of the frame.
    pub(crate) bytes: &'a [u8],
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Protocol of the payload.
    pub(crate) protocol: IpProtocol,
    pub(crate) payload: &'a [u8],
    pub(crate) fragment: Option<Fragment>,
}

impl<'a> Packet<'a> {
    /// Parses a packet, and verifies the header checksum.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            _ => None,
        }
    }

    fn parse_v4(bytes: &'a [u8]) -> Option<Self> {
        let packet = Ipv4Packet::new_checked(bytes).ok()?;
        if packet.header_len() < 20 || !packet.verify_checksum() {
            return None;
        }
        let offset = usize::from(packet.frag_offset());
        let fragment = (packet.more_frags() || offset != 0).then(|| Fragment {
            identification: u32::from(packet.ident()),
            offset,
            is_last: !packet.more_frags(),
        });
        Some(Self {
            bytes: bytes.get(..usize::from(packet.total_len()))?,
            source: packet.src_addr().into(),
            destination: packet.dst_addr().into(),
            protocol: packet.next_header(),
            payload: packet.payload(),
            fragment,
        })
    }

    fn parse_v6(bytes: &'a [u8]) -> Option<Self> {
        let packet = Ipv6Packet::new_checked(bytes).ok()?;
        let bytes = bytes.get(..packet.total_len())?;
        let (mut protocol, mut payload) = (packet.next_header(), packet.payload());
        if protocol == IpProtocol::HopByHop {
            let header = Ipv6ExtHeader::new_checked(payload).ok()?;
            // In units of 8 bytes, without the first 8 bytes (RFC 8200, section 4.3).
            let size = (usize::from(header.header_len()) + 1) * 8;
            (protocol, payload) = (header.next_header(), payload.get(size..)?);
        }
        let mut fragment = None;
        if protocol == IpProtocol::Ipv6Frag {
            let next = *payload.first()?;
            let header = Ipv6FragmentHeader::new_checked(payload.get(2..)?).ok()?;
            fragment = Some(Fragment {
                identification: header.ident(),
                offset: usize::from(header.frag_offset()) * 8,
                is_last: !header.more_frags(),
            });
            (protocol, payload) = (next.into(), payload.get(8..)?);
            // Each header occurs once, and Hop-by-Hop Options only directly after the IPv6 header (RFC 8200,
            // section 4.1). A reassembled packet is therefore never a fragment again.
            if matches!(protocol, IpProtocol::Ipv6Frag | IpProtocol::HopByHop) {
                return None;
            }
        }
        Some(Self {
            bytes,
            source: packet.src_addr().into(),
            destination: packet.dst_addr().into(),
            protocol,
            payload,
            fragment,
        })
    }

    /// Type of service (IPv4) or traffic class (IPv6).
    pub(crate) fn traffic_class(&self) -> u8 {
        match *self.bytes {
            [first, second, ..] if first >> 4 == 6 => (first << 4) | (second >> 4),
            [_, second, ..] => second,
            _ => 0,
        }
    }

    /// Time to live (IPv4) or hop limit (IPv6).
    pub(crate) fn hop_limit(&self) -> u8 {
        let offset = if self.source.is_ipv4() { 8 } else { 7 };
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// Returns the UDP datagram in the packet, if it is valid.
    pub(crate) fn udp(&self, is_checked: bool) -> Option<UdpPacket<&'a [u8]>> {
        let datagram = UdpPacket::new_checked(self.payload).ok()?;
        // In IPv4, 0 means that the sender did not compute a checksum (RFC 768).
        let has_none = datagram.checksum() == 0;
        let is_intact = is_checked
            || has_none && self.source.is_ipv4()
            || !has_none && datagram.verify_checksum(&self.source.into(), &self.destination.into());
        (is_intact && datagram.dst_port() != 0).then_some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Packet};
    use crate::testing::{header, v6};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};
    use smoltcp::wire::IpProtocol;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..200), version in 0..2_u8) {
            let mut bytes = bytes;
            let _ = Frame::parse(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = (*first & 0x0f) | if version == 0 { 0x40 } else { 0x60 };
            }
            if let Some(packet) = Packet::parse(&bytes) {
                let _ = (packet.tcp(true), packet.udp(true));
            }
        }

        #[test]
        fn one_header_of_hop_by_hop_options_and_one_of_fragments_are_read(kinds in vec(0..3_usize, 0..12)) {
            const KINDS: [IpProtocol; 3] = [IpProtocol::HopByHop, IpProtocol::Ipv6Frag, IpProtocol::Ipv6Opts];
            let chain: Vec<_> = kinds.iter().map(|&kind| KINDS[kind]).chain([IpProtocol::Udp]).collect();
            let mut bytes = std::vec![0; 40];
            header(v6(1), v6(0), chain[0], chain.len() * 8).write(&mut bytes);
            // Each header has 8 bytes, whose first one is the protocol of the next.
            bytes.extend(chain.iter().skip(1).flat_map(|&next| [u8::from(next), 0, 0, 0, 0, 0, 0, 0]));
            bytes.extend([7; 8]);
            let mut read = usize::from(chain[0] == IpProtocol::HopByHop);
            let has_fragment = chain[read] == IpProtocol::Ipv6Frag;
            read += usize::from(has_fragment);
            let is_valid = !has_fragment || !matches!(chain[read], IpProtocol::HopByHop | IpProtocol::Ipv6Frag);
            let packet = Packet::parse(&bytes);
            prop_assert_eq!(packet.is_some(), is_valid);
            if let Some(packet) = packet {
                prop_assert_eq!((packet.protocol, packet.fragment.is_some()), (chain[read], has_fragment));
                prop_assert_eq!(packet.payload.len(), (chain.len() - read) * 8);
            }
        }
    }
}
