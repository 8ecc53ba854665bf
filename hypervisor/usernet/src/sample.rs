//! Frames of a guest, for tests and fuzz targets.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpOption, TcpPacket, TcpSeqNumber, UdpPacket, UdpRepr,
};

use crate::config::GATEWAY_MAC;

/// MAC address of the guest.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Sizes in bytes of headers without options.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// A TCP segment of the guest.
#[derive(Clone, Debug)]
pub struct TcpSegment<'a> {
    /// The guest's end, and the peer's.
    pub ends: (SocketAddr, SocketAddr),
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags (RFC 9293 §3.1).
    pub flags: u8,
    /// Window, before scaling.
    pub window: u16,
    /// Maximum segment size, and window scale.
    pub options: Option<(u16, u8)>,
    /// Data.
    pub data: &'a [u8],
}

impl TcpSegment<'_> {
    /// Returns the frame of the segment. Its TCP checksum is 0, because the network does not check it.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let size: u8 = if self.options.is_some() { 28 } else { 20 };
        let mut bytes = vec![0; size.into()];
        let mut packet = TcpPacket::new_unchecked(&mut bytes);
        packet.set_src_port(self.ends.0.port());
        packet.set_dst_port(self.ends.1.port());
        packet.set_seq_number(TcpSeqNumber(self.seq.cast_signed()));
        packet.set_ack_number(TcpSeqNumber(self.ack.cast_signed()));
        packet.set_header_len(size);
        packet.set_window_len(self.window);
        bytes[13] = self.flags;
        if let Some((mss, scale)) = self.options {
            let rest = TcpOption::MaxSegmentSize(mss).emit(&mut bytes[20..]);
            TcpOption::NoOperation.emit(TcpOption::WindowScale(scale).emit(rest));
        }
        bytes.extend(self.data);
        packet_frame(self.ends.0.ip(), self.ends.1.ip(), IpProtocol::Tcp, &bytes)
    }
}

/// Returns a frame with a UDP datagram.
#[must_use]
pub fn udp_frame(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; UDP + data.len()];
    UdpRepr { src_port: from.port(), dst_port: to.port() }.emit(
        &mut UdpPacket::new_unchecked(&mut bytes),
        &from.ip().into(),
        &to.ip().into(),
        data.len(),
        |place| place.copy_from_slice(data),
        &ChecksumCapabilities::ignored(),
    );
    packet_frame(from.ip(), to.ip(), IpProtocol::Udp, &bytes)
}

/// Returns a frame with an IP packet.
///
/// # Panics
///
/// The addresses have different IP versions.
#[must_use]
pub fn packet_frame(from: IpAddr, to: IpAddr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let (next_header, payload_len, hop_limit) = (protocol, payload.len(), 64);
    let mut bytes = vec![0; ETHERNET + if from.is_ipv4() { IPV4 } else { IPV6 }];
    let kind = match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            let packet = &mut Ipv4Packet::new_unchecked(&mut bytes[ETHERNET..]);
            repr.emit(packet, &ChecksumCapabilities::default());
            EthernetProtocol::Ipv4
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let repr = Ipv6Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            repr.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[ETHERNET..]));
            EthernetProtocol::Ipv6
        }
        _ => panic!("{from} and {to} are of different versions"),
    };
    write_ethernet(&mut bytes, kind);
    bytes.extend(payload);
    bytes
}

/// Writes an Ethernet header of the guest to the first bytes of a frame.
pub fn write_ethernet(bytes: &mut [u8], kind: EthernetProtocol) {
    let mut frame = EthernetFrame::new_unchecked(bytes);
    frame.set_src_addr(EthernetAddress(MAC));
    frame.set_dst_addr(EthernetAddress(GATEWAY_MAC));
    frame.set_ethertype(kind);
}
