//! Checks of frames for the guest: smoltcp's parsers must accept each frame, and it must be addressed to the
//! guest.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use hermit_usernet::config::GATEWAY_MAC;
use hermit_usernet::sample::MAC;
use hermit_usernet::{Limits, Offload};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpPacket, DhcpRepr, EthernetFrame, EthernetProtocol, Icmpv4Message,
    Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket,
    TcpRepr, UdpPacket, UdpRepr,
};

use super::guest::{ACK, FIN, RST, SYN};

/// Size in bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Port of DHCP clients.
const DHCP_CLIENT: u16 = 68;

/// A TCP segment for the guest.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) data: &'a [u8],
}

/// Invariants of all frames for the guest.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) mtu: usize,
    pub(super) limits: Limits,
    /// Addresses to which frames for the guest may be sent.
    pub(super) addresses: HashSet<IpAddr>,
}

impl Rules {
    /// Checks a frame whose checksum is complete. Returns its TCP segment, if it has one.
    pub(super) fn check<'a>(&self, frame: &'a [u8], offload: Offload) -> Option<Received<'a>> {
        assert!(frame.len() <= self.limits.max_frame, "a frame has {} bytes", frame.len());
        let ethernet = EthernetFrame::new_checked(frame).expect("an Ethernet frame");
        assert_eq!((ethernet.src_addr().0, ethernet.dst_addr().0), (GATEWAY_MAC, MAC));
        let ips = match ethernet.ethertype() {
            EthernetProtocol::Arp => return check_arp(ethernet.payload()),
            EthernetProtocol::Ipv4 => ipv4(ethernet.payload()),
            EthernetProtocol::Ipv6 => ipv6(ethernet.payload()),
            EthernetProtocol::Unknown(other) => panic!("EtherType {other:#x}"),
        };
        let (from, to, protocol, payload) = ips;
        assert!(self.addresses.contains(&to), "a frame from {from} is for {to}");
        assert!(!from.is_multicast() && !from.is_unspecified(), "a frame is from {from}");
        assert!(from.to_string() != "255.255.255.255", "a frame is from {from}");
        self.check_size(frame.len(), from.is_ipv4(), offload);
        match protocol {
            IpProtocol::Tcp => return Some(tcp(from, to, payload)),
            IpProtocol::Udp => check_udp(from, to, payload),
            IpProtocol::Icmp => check_icmp_v4(payload),
            IpProtocol::Icmpv6 => check_icmp_v6(from, to, payload),
            other => panic!("protocol {other}"),
        }
        None
    }

    /// Checks that a packet is larger than the MTU only if the guest takes large segments.
    fn check_size(&self, length: usize, is_v4: bool, offload: Offload) {
        let Some(size) = offload.segment_size else {
            return assert!(length <= ETHERNET + self.mtu, "a packet of {} bytes", length - ETHERNET);
        };
        let (v4, v6) = self.limits.has_large_segments;
        assert!(if is_v4 { v4 } else { v6 }, "the guest takes no large segments");
        assert!(offload.is_v4 == is_v4 && offload.checksum.is_some());
        let headers = if is_v4 { 40 } else { 60 };
        assert!(size > 0 && usize::from(size) + headers <= self.mtu, "segments of {size} bytes");
        assert!(length - ETHERNET - headers > usize::from(size));
    }
}

fn check_arp(bytes: &[u8]) -> Option<Received<'static>> {
    let packet = ArpPacket::new_checked(bytes).expect("an ARP packet");
    let ArpRepr::EthernetIpv4 { operation, source_hardware_addr, target_hardware_addr, .. } =
        ArpRepr::parse(&packet).expect("a reply")
    else {
        panic!("an ARP packet of another protocol");
    };
    assert_eq!(operation, ArpOperation::Reply);
    assert_eq!((source_hardware_addr.0, target_hardware_addr.0), (GATEWAY_MAC, MAC));
    None
}

/// Addresses, protocol and payload of a packet.
type Packet<'a> = (IpAddr, IpAddr, IpProtocol, &'a [u8]);

fn ipv4(bytes: &[u8]) -> Packet<'_> {
    let packet = Ipv4Packet::new_checked(bytes).expect("an IPv4 packet");
    assert!(packet.version() == 4 && packet.verify_checksum());
    assert!(packet.header_len() == 20 && usize::from(packet.total_len()) == bytes.len());
    assert!(!packet.more_frags() && packet.frag_offset() == 0 && packet.hop_limit() > 0);
    (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload())
}

fn ipv6(bytes: &[u8]) -> Packet<'_> {
    let packet = Ipv6Packet::new_checked(bytes).expect("an IPv6 packet");
    assert!(packet.version() == 6 && packet.total_len() == bytes.len() && packet.hop_limit() > 0);
    (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload())
}

fn tcp(from: IpAddr, to: IpAddr, payload: &[u8]) -> Received<'_> {
    let packet = TcpPacket::new_checked(payload).expect("a TCP segment");
    TcpRepr::parse(&packet, &from.into(), &to.into(), &ChecksumCapabilities::default())
        .expect("a TCP segment");
    let flags = payload[13];
    let control = flags & (SYN | FIN | RST);
    assert!(control.count_ones() <= 1 && flags & 0xe0 == 0, "flags {flags:#x}");
    assert!(control != 0 || flags & ACK != 0, "a segment without an acknowledgement");
    assert!(control & (SYN | RST) == 0 || packet.payload().is_empty());
    Received {
        from: SocketAddr::new(from, packet.src_port()),
        to: SocketAddr::new(to, packet.dst_port()),
        seq: packet.seq_number().0.cast_unsigned(),
        ack: packet.ack_number().0.cast_unsigned(),
        flags,
        data: &payload[packet.header_len().into()..],
    }
}

fn check_udp(from: IpAddr, to: IpAddr, payload: &[u8]) {
    let packet = UdpPacket::new_checked(payload).expect("a datagram");
    UdpRepr::parse(&packet, &from.into(), &to.into(), &ChecksumCapabilities::default()).expect("a datagram");
    assert!(usize::from(packet.len()) == payload.len() && packet.checksum() != 0);
    if packet.dst_port() == DHCP_CLIENT && packet.src_port() == 67 && from.to_string() == "10.0.2.2" {
        let packet = DhcpPacket::new_checked(packet.payload()).expect("a DHCP message");
        DhcpRepr::parse(&packet).expect("a DHCP message");
    }
}

fn check_icmp_v4(payload: &[u8]) {
    let packet = Icmpv4Packet::new_checked(payload).expect("an ICMP message");
    assert!(packet.verify_checksum());
    if packet.msg_type() == Icmpv4Message::DstUnreachable {
        // smoltcp's checked constructor would require the whole quoted packet.
        let quoted = Ipv4Packet::new_unchecked(packet.data());
        assert!(packet.data().len() >= 28 && quoted.verify_checksum() && quoted.header_len() == 20);
        return;
    }
    let repr = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).expect("an ICMP message");
    assert!(matches!(repr, Icmpv4Repr::EchoReply { .. }), "{repr:?}");
}

fn check_icmp_v6(from: IpAddr, to: IpAddr, payload: &[u8]) {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { panic!("ICMPv6 from {from} to {to}") };
    let packet = Icmpv6Packet::new_checked(payload).expect("an ICMPv6 message");
    let repr = Icmpv6Repr::parse(&from, &to, &packet, &ChecksumCapabilities::default());
    let repr = repr.expect("an ICMPv6 message");
    let is_right = matches!(
        repr,
        Icmpv6Repr::EchoReply { .. } | Icmpv6Repr::DstUnreachable { .. } | Icmpv6Repr::Ndisc(_)
    );
    assert!(is_right, "{repr:?}");
}
