//! Writing of headers: Ethernet, ARP, IPv4 and IPv6 with fragments, neighbor solicitations, UDP.
//!
//! Frames are written in place into the buffer of the device. Each function writes its header at the start of
//! the buffer, and returns the rest for the next layer. smoltcp encodes the fields.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, ETHERNET_HEADER_LEN, EthernetAddress, EthernetFrame, EthernetProtocol,
    Icmpv6Packet, Icmpv6Repr, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, NdiscRepr,
    UDP_HEADER_LEN, UdpPacket, UdpRepr,
};

/// Size in bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = ETHERNET_HEADER_LEN;

/// Size in bytes of the IP header of a packet from or to an address.
pub(crate) const fn ip_header(address: &IpAddr) -> usize {
    if address.is_ipv4() { 20 } else { 40 }
}

/// Fields of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EthernetHeader {
    pub(crate) source: EthernetAddress,
    pub(crate) destination: EthernetAddress,
    pub(crate) protocol: EthernetProtocol,
}

impl EthernetHeader {
    /// Returns the Ethernet protocol of an IP address.
    pub(crate) const fn protocol(address: &IpAddr) -> EthernetProtocol {
        if address.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 }
    }

    /// Writes the header at the start of a frame, and returns the rest.
    pub(crate) fn write(self, bytes: &mut [u8]) -> &mut [u8] {
        let mut frame = EthernetFrame::new_unchecked(&mut *bytes);
        frame.set_src_addr(self.source);
        frame.set_dst_addr(self.destination);
        frame.set_ethertype(self.protocol);
        &mut bytes[ETHERNET..]
    }
}

/// Fields of an IPv4 or IPv6 header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpHeader {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpProtocol,
    /// Payload size in bytes.
    pub(crate) size: usize,
    pub(crate) hop_limit: u8,
    /// Type of service (IPv4) or traffic class (IPv6).
    pub(crate) class: u8,
}

impl IpHeader {
    /// Size in bytes of the header.
    pub(crate) const fn size(&self) -> usize {
        ip_header(&self.source)
    }

    /// Writes the header at the start of a packet, and returns the rest. Writes nothing if the addresses have
    /// different IP versions.
    pub(crate) fn write<'a>(&self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        match (self.source, self.destination) {
            (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
                let mut packet = Ipv4Packet::new_unchecked(&mut *bytes);
                let (next_header, hop_limit) = (self.protocol, self.hop_limit);
                let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len: self.size, hop_limit };
                repr.emit(&mut packet, &ChecksumCapabilities::ignored());
                packet.set_dscp(self.class >> 2);
                packet.set_ecn(self.class & 3);
                packet.fill_checksum();
            }
            (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
                let mut packet = Ipv6Packet::new_unchecked(&mut *bytes);
                let (next_header, hop_limit) = (self.protocol, self.hop_limit);
                let repr = Ipv6Repr { src_addr, dst_addr, next_header, payload_len: self.size, hop_limit };
                repr.emit(&mut packet);
                packet.set_traffic_class(self.class);
            }
            _ => (),
        }
        &mut bytes[self.size()..]
    }

    /// Turns a written IPv4 header into the header of a fragment.
    pub(crate) fn write_fragment_v4(bytes: &mut [u8], identification: u16, offset: u16, is_last: bool) {
        let mut packet = Ipv4Packet::new_unchecked(bytes);
        packet.set_ident(identification);
        packet.set_dont_frag(false);
        packet.set_more_frags(!is_last);
        packet.set_frag_offset(offset);
        packet.fill_checksum();
    }
}

/// Writes the fragment header of IPv6, 8 bytes (RFC 8200, section 4.5).
pub(crate) fn fragment_v6(
    bytes: &mut [u8],
    protocol: IpProtocol,
    identification: u32,
    offset: u16,
    is_last: bool,
) {
    // The offset is a multiple of 8, so the lowest bits are free for the flag.
    let field = (offset & !7) | u16::from(!is_last);
    let [high, low] = field.to_be_bytes();
    let [a, b, c, d] = identification.to_be_bytes();
    bytes.copy_from_slice(&[u8::from(protocol), 0, high, low, a, b, c, d]);
}

/// Size in bytes of a frame with an ARP request or reply.
pub(crate) const ARP: usize = ETHERNET + 28;

/// Writes an ARP reply into a frame of [`ARP`] bytes.
pub(crate) fn arp_answer(
    bytes: &mut [u8],
    mac: EthernetAddress,
    source: Ipv4Addr,
    to: EthernetAddress,
    target: Ipv4Addr,
) {
    let header = EthernetHeader { source: mac, destination: to, protocol: EthernetProtocol::Arp };
    let answer = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: mac,
        source_protocol_addr: source,
        target_hardware_addr: to,
        target_protocol_addr: target,
    };
    answer.emit(&mut ArpPacket::new_unchecked(header.write(bytes)));
}

/// Size in bytes of a frame with an ARP request or a neighbor solicitation.
pub(crate) const fn solicitation_size(target: &IpAddr) -> usize {
    if target.is_ipv4() { ARP } else { ETHERNET + 40 + 32 }
}

/// Writes an ARP request or a neighbor solicitation into a frame of [`solicitation_size`] bytes. The frame is
/// unicast if the MAC address is `known`.
pub(crate) fn solicitation(
    bytes: &mut [u8],
    mac: EthernetAddress,
    source: IpAddr,
    target: IpAddr,
    known: Option<EthernetAddress>,
) {
    match (source, target) {
        (IpAddr::V4(source_protocol_addr), IpAddr::V4(target_protocol_addr)) => {
            let destination = known.unwrap_or(EthernetAddress::BROADCAST);
            let header = EthernetHeader { source: mac, destination, protocol: EthernetProtocol::Arp };
            let question = ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Request,
                source_hardware_addr: mac,
                source_protocol_addr,
                target_hardware_addr: EthernetAddress([0; 6]),
                target_protocol_addr,
            };
            question.emit(&mut ArpPacket::new_unchecked(header.write(bytes)));
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => solicitation_v6(bytes, mac, source, target, known),
        _ => (),
    }
}

fn solicitation_v6(
    bytes: &mut [u8],
    mac: EthernetAddress,
    source: Ipv6Addr,
    target: Ipv6Addr,
    known: Option<EthernetAddress>,
) {
    // The solicited-node multicast address (RFC 4291, section 2.7.1).
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let (destination, ip) = match known {
        Some(known) => (known, target),
        None => (multicast_mac(&group.into()), group),
    };
    let question =
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(mac.into()) });
    let ethernet = EthernetHeader { source: mac, destination, protocol: EthernetProtocol::Ipv6 };
    let header = IpHeader {
        source: source.into(),
        destination: ip.into(),
        protocol: IpProtocol::Icmpv6,
        size: question.buffer_len(),
        hop_limit: 255,
        class: 0,
    };
    let payload = header.write(ethernet.write(bytes));
    question.emit(&source, &ip, &mut Icmpv6Packet::new_unchecked(payload), &ChecksumCapabilities::default());
}

/// Returns the MAC address of a multicast group (RFC 1112, section 6.4; RFC 2464, section 7).
pub(crate) fn multicast_mac(group: &IpAddr) -> EthernetAddress {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            EthernetAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            EthernetAddress([0x33, 0x33, a, b, c, d])
        }
    }
}

/// Size in bytes of a UDP header.
pub(crate) const UDP: usize = UDP_HEADER_LEN;

/// Writes a UDP datagram with its checksum.
pub(crate) fn udp(bytes: &mut [u8], ends: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) {
    let repr = UdpRepr { src_port: ends.1, dst_port: to.1 };
    let (source, destination): (IpAddress, IpAddress) = (ends.0.into(), to.0.into());
    let mut packet = UdpPacket::new_unchecked(bytes);
    let copy = |bytes: &mut [u8]| bytes.copy_from_slice(payload);
    repr.emit(&mut packet, &source, &destination, payload.len(), copy, &ChecksumCapabilities::default());
}

#[cfg(test)]
mod tests {
    use super::{IpHeader, multicast_mac, solicitation, solicitation_size};
    use crate::wire::packet::{Frame, Packet};
    use core::net::IpAddr;
    use smoltcp::wire::{EthernetAddress, EthernetProtocol, Icmpv6Packet, IpProtocol};
    use std::vec;

    const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn solicitations_are_broadcast_or_solicited_node_multicast() {
        let mut arp = vec![0; solicitation_size(&ip("10.0.0.1"))];
        solicitation(&mut arp, MAC, ip("10.0.0.2"), ip("10.0.0.1"), None);
        let frame = Frame::parse(&arp).unwrap();
        assert_eq!((frame.destination, frame.protocol), (EthernetAddress::BROADCAST, EthernetProtocol::Arp));
        let mut ndisc = vec![0; solicitation_size(&ip("fe80::1"))];
        solicitation(&mut ndisc, MAC, ip("fe80::2"), ip("fe80::1:2:3"), None);
        let frame = Frame::parse(&ndisc).unwrap();
        assert_eq!(frame.destination, EthernetAddress([0x33, 0x33, 0xff, 2, 0, 3]));
        let packet = Packet::parse(frame.payload).unwrap();
        assert_eq!(packet.destination, ip("ff02::1:ff02:3"));
        let message = Icmpv6Packet::new_checked(packet.payload).unwrap();
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
            panic!()
        };
        assert!(message.verify_checksum(&source, &destination));
    }

    #[test]
    fn written_headers_parse_back() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")] {
            let header = IpHeader {
                source: ip(source),
                destination: ip(destination),
                protocol: IpProtocol::Udp,
                size: 8,
                hop_limit: 3,
                class: 0xb8,
            };
            let mut bytes = vec![0; header.size() + 8];
            header.write(&mut bytes);
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.source, packet.destination), (ip(source), ip(destination)));
            assert_eq!((packet.protocol, packet.payload.len()), (IpProtocol::Udp, 8));
        }
    }

    #[test]
    fn multicast_groups_have_mac_addresses() {
        assert_eq!(multicast_mac(&ip("239.129.2.3")), EthernetAddress([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(multicast_mac(&ip("ff02::1:3")), EthernetAddress([0x33, 0x33, 0, 1, 0, 3]));
    }
}
