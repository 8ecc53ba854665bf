//! Headers of frames for the guest.
//!
//! The headers of a frame are written to a buffer of this process, but the frame's data goes directly from a
//! socket to guest memory. So this module never sees the data, and cannot compute the checksum over it. The
//! TCP or UDP header gets only the sum of the pseudo header, and [`Offload`] leaves the rest to the receiver,
//! as a virtio-net header does (virtio 1.2 §5.1.6). For a receiver without checksum offload,
//! [`Offload::complete`] computes the checksum afterwards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_tcp::{Flags, Seq};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpOption, TcpPacket, TcpSeqNumber, UdpPacket, checksum,
};

use crate::config::{GATEWAY_MAC, Mac};
use crate::parse::{ETHERNET, Ends, IPV4, IPV6, TCP, UDP};

/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// Size in bytes of the options of a SYN: maximum segment size, no operation, window scale.
const SYN_OPTIONS: usize = 8;

/// Offsets of checksums in the headers of TCP and UDP.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;

/// Work that is left to the receiver of a frame: the fields of a virtio-net header (virtio 1.2 §5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Position in the frame at which the checksummed bytes begin, and the offset of the checksum field from
    /// this position. `None` if the checksum is complete.
    pub checksum: Option<(u16, u16)>,
    /// Maximum size in bytes of the data of each segment; `None` if the data fits into one segment.
    pub segment_size: Option<u16>,
    /// True for an IPv4 packet.
    pub is_v4: bool,
}

impl Offload {
    /// Completes the checksum of a frame for a receiver without checksum offload. Does nothing if it is
    /// complete.
    pub fn complete(self, frame: &mut [u8]) {
        let Some((start, offset)) = self.checksum else { return };
        let Some(bytes) = frame.get_mut(usize::from(start)..) else { return };
        // The checksum field already contains the sum of the pseudo header, so `bytes` include it.
        let sum = match !checksum::data(bytes) {
            // In UDP, a checksum of zero means that there is no checksum (RFC 768).
            0 => u16::MAX,
            sum => sum,
        };
        let offset = usize::from(offset);
        if let Some(field) = bytes.get_mut(offset..offset + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Returns the size in bytes of the Ethernet and IP headers.
pub(crate) const fn ip_offset(is_v4: bool) -> usize {
    ETHERNET + if is_v4 { IPV4 } else { IPV6 }
}

/// Writes the headers of Ethernet and IP for a payload of `length` bytes to the front of `head`.
fn write_ip(
    head: &mut [u8],
    guest: Mac,
    (from, to): (IpAddr, IpAddr),
    protocol: IpProtocol,
    length: usize,
    hop_limit: u8,
) {
    let mut frame = EthernetFrame::new_unchecked(&mut *head);
    frame.set_src_addr(EthernetAddress(GATEWAY_MAC));
    frame.set_dst_addr(EthernetAddress(guest));
    let is_v4 = from.is_ipv4();
    frame.set_ethertype(if is_v4 { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 });
    let Some(packet) = head.get_mut(ETHERNET..ip_offset(is_v4)) else { return };
    match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let repr = Ipv4Repr { src_addr, dst_addr, next_header: protocol, payload_len: length, hop_limit };
            repr.emit(&mut Ipv4Packet::new_unchecked(packet), &ChecksumCapabilities::default());
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let repr = Ipv6Repr { src_addr, dst_addr, next_header: protocol, payload_len: length, hop_limit };
            repr.emit(&mut Ipv6Packet::new_unchecked(packet));
        }
        // Not reached: both ends of a flow have the same IP version.
        _ => {}
    }
}

/// Writes the headers of Ethernet and IP of a frame to `head`, for a payload of `length` bytes.
pub(crate) fn write_ip_header(
    head: &mut Vec<u8>,
    guest: Mac,
    ips: (IpAddr, IpAddr),
    protocol: IpProtocol,
    length: usize,
) {
    head.resize(ip_offset(ips.0.is_ipv4()), 0);
    write_ip(head, guest, ips, protocol, length, HOP_LIMIT);
}

/// Returns a frame with an IP packet. The caller has already computed the checksum in the payload.
pub(crate) fn packet(
    guest: Mac,
    ips: (IpAddr, IpAddr),
    protocol: IpProtocol,
    hop_limit: u8,
    payload: &[u8],
) -> Vec<u8> {
    let offset = ip_offset(ips.0.is_ipv4());
    let mut frame = vec![0; offset + payload.len()];
    write_ip(&mut frame, guest, ips, protocol, payload.len(), hop_limit);
    if let Some(place) = frame.get_mut(offset..) {
        place.copy_from_slice(payload);
    }
    frame
}

/// Header of a TCP segment for the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpHeader {
    pub(crate) ends: Ends,
    pub(crate) seq: Seq,
    pub(crate) ack: Option<Seq>,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    /// Maximum segment size and window scale, for a SYN.
    pub(crate) syn_options: Option<(u16, Option<u8>)>,
}

impl TcpHeader {
    /// Appends all headers of a frame with `length` bytes of data to `head`. The receiver completes the
    /// checksum.
    pub(crate) fn write(&self, guest: Mac, length: usize, head: &mut Vec<u8>) -> Offload {
        let Ends { guest: to, peer: from } = self.ends;
        let ips = (from.ip(), to.ip());
        let offset = ip_offset(from.is_ipv4());
        let size = TCP + if self.syn_options.is_some() { SYN_OPTIONS } else { 0 };
        head.resize(offset + size, 0);
        write_ip(head, guest, ips, IpProtocol::Tcp, size + length, HOP_LIMIT);
        let Some(bytes) = head.get_mut(offset..) else { return Offload::default() };
        let mut packet = TcpPacket::new_unchecked(&mut *bytes);
        packet.set_src_port(from.port());
        packet.set_dst_port(to.port());
        packet.set_seq_number(TcpSeqNumber(self.seq.0.cast_signed()));
        packet.set_ack_number(TcpSeqNumber(self.ack.unwrap_or_default().0.cast_signed()));
        packet.set_header_len(u8::try_from(size).unwrap_or(u8::MAX));
        packet.set_window_len(self.window);
        packet.set_urgent_at(0);
        packet.set_checksum(pseudo_header(ips, IpProtocol::Tcp, size + length));
        let ack = if self.ack.is_some() { Flags::ACK } else { Flags::empty() };
        if let Some(flags) = bytes.get_mut(13) {
            *flags = (self.flags | ack).bits();
        }
        if let (Some((mss, scale)), Some(options)) = (self.syn_options, bytes.get_mut(TCP..)) {
            let rest = TcpOption::MaxSegmentSize(mss).emit(options);
            let rest = TcpOption::NoOperation.emit(rest);
            // Without window scaling, the option is replaced by three bytes of padding.
            scale.map_or(TcpOption::EndOfList, TcpOption::WindowScale).emit(rest);
        }
        Offload { checksum: Some((short(offset), TCP_CHECKSUM)), segment_size: None, is_v4: from.is_ipv4() }
    }
}

/// Appends all headers of a UDP datagram for the guest with `length` bytes of data to `head`. The receiver
/// completes the checksum.
pub(crate) fn write_udp(guest: Mac, ends: Ends, length: usize, head: &mut Vec<u8>) -> Offload {
    let Ends { guest: to, peer: from } = ends;
    let ips = (from.ip(), to.ip());
    let offset = ip_offset(from.is_ipv4());
    head.resize(offset + UDP, 0);
    write_ip(head, guest, ips, IpProtocol::Udp, UDP + length, HOP_LIMIT);
    let Some(bytes) = head.get_mut(offset..) else { return Offload::default() };
    let mut packet = UdpPacket::new_unchecked(bytes);
    packet.set_src_port(from.port());
    packet.set_dst_port(to.port());
    packet.set_len(short(UDP + length));
    packet.set_checksum(pseudo_header(ips, IpProtocol::Udp, UDP + length));
    Offload { checksum: Some((short(offset), UDP_CHECKSUM)), segment_size: None, is_v4: from.is_ipv4() }
}

/// Returns a frame with a UDP datagram and its data. The checksum is complete.
pub(crate) fn udp(guest: Mac, ends: Ends, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let offload = write_udp(guest, ends, data.len(), &mut frame);
    frame.extend_from_slice(data);
    offload.complete(&mut frame);
    frame
}

/// Returns the sum of the pseudo header. The receiver adds the sum of header and data.
pub(crate) fn pseudo_header((from, to): (IpAddr, IpAddr), protocol: IpProtocol, length: usize) -> u16 {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    checksum::pseudo_header(&from.into(), &to.into(), protocol, length)
}

/// Returns the value of [`Offload::checksum`]: where the checksummed bytes begin, and the offset of the
/// checksum field from there.
pub(crate) fn checksum_of(start: usize, field: usize) -> (u16, u16) {
    (short(start), short(field))
}

/// Converts a size or an offset in a packet. A packet has at most 65,535 bytes.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Returns an Ethernet frame for the guest with this payload.
pub(crate) fn ethernet(guest: Mac, ether_type: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ETHERNET + payload.len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    frame.set_src_addr(EthernetAddress(GATEWAY_MAC));
    frame.set_dst_addr(EthernetAddress(guest));
    frame.set_ethertype(ether_type);
    frame.payload_mut().copy_from_slice(payload);
    bytes
}

/// Returns the IPv4 header of a packet that the guest has sent, as an ICMP error quotes it.
pub(crate) fn quoted_v4((from, to): (Ipv4Addr, Ipv4Addr), protocol: IpProtocol, length: usize) -> Ipv4Repr {
    Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: protocol,
        payload_len: length,
        hop_limit: HOP_LIMIT,
    }
}

/// Returns the IPv6 header of a packet that the guest has sent, as an ICMPv6 error quotes it.
pub(crate) fn quoted_v6((from, to): (Ipv6Addr, Ipv6Addr), protocol: IpProtocol, length: usize) -> Ipv6Repr {
    Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: protocol,
        payload_len: length,
        hop_limit: HOP_LIMIT,
    }
}
