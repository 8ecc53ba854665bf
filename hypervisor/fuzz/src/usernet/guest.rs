//! The guest: the frames that it sends, and as much state of its TCP connections as it needs for valid
//! segments.

use std::net::{IpAddr, SocketAddr};

use hermit_usernet::config::GATEWAY_MAC;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpOption, TcpPacket, TcpSeqNumber,
};

use super::checks::Received;
use super::host::byte;

/// MAC address of the guest.
pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Maximum number of connections that the guest knows.
const MAX_CONNECTIONS: usize = 16;

/// Flags of TCP (RFC 9293 §3.1).
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// A TCP segment of the guest's.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// Maximum segment size and window scale.
    pub(super) options: Option<(u16, u8)>,
    pub(super) length: usize,
}

impl Segment {
    /// Returns the frame of the segment. Its sequence numbers determine the data.
    pub(super) fn frame(&self) -> Vec<u8> {
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
        let first = self.seq.wrapping_add(u32::from(self.flags & SYN != 0));
        bytes.extend((0..self.length).zip(0_u32..).map(|(_, at)| byte(first.wrapping_add(at))));
        packet_frame(self.ends.0.ip(), self.ends.1.ip(), IpProtocol::Tcp, &bytes)
    }
}

/// Returns a frame with an IP packet. Both addresses must have the same IP version.
pub(super) fn packet_frame(from: IpAddr, to: IpAddr, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let (next_header, payload_len, hop_limit) = (protocol, payload.len(), 64);
    let mut bytes = vec![0; if from.is_ipv4() { 34 } else { 54 }];
    let kind = match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            repr.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[14..]), &ChecksumCapabilities::default());
            EthernetProtocol::Ipv4
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let repr = Ipv6Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            repr.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[14..]));
            EthernetProtocol::Ipv6
        }
        _ => unreachable!("{from} and {to} are of different versions"),
    };
    write_ethernet(&mut bytes, kind);
    bytes.extend(payload);
    bytes
}

/// Writes an Ethernet header of the guest's.
pub(super) fn write_ethernet(bytes: &mut [u8], kind: EthernetProtocol) {
    let mut frame = EthernetFrame::new_unchecked(bytes);
    frame.set_src_addr(EthernetAddress(MAC));
    frame.set_dst_addr(EthernetAddress(GATEWAY_MAC));
    frame.set_ethertype(kind);
}

/// A connection, as far as the guest knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// The guest's end, and the peer's.
    pub(super) ends: (SocketAddr, SocketAddr),
    /// SND.NXT and RCV.NXT.
    pub(super) next: u32,
    pub(super) received: u32,
    /// Sequence number of the network's SYN, once it was received.
    peer_iss: Option<u32>,
}

/// The connections of the guest. All have the same initial number, `iss`.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) iss: u32,
    pub(super) connections: Vec<Connection>,
}

impl Guest {
    /// Returns the position of the connection with these ends, which may be new.
    pub(super) fn connection(&mut self, ends: (SocketAddr, SocketAddr)) -> usize {
        if let Some(at) = self.connections.iter().position(|connection| connection.ends == ends) {
            return at;
        }
        if self.connections.len() == MAX_CONNECTIONS {
            self.connections.remove(0);
        }
        self.connections.push(Connection { ends, next: self.iss, received: 0, peer_iss: None });
        self.connections.len() - 1
    }

    /// Updates the connection from a segment of the network, and checks its data if `has_content`.
    pub(super) fn receive(&mut self, segment: &Received<'_>, has_content: bool) {
        let is_syn = segment.flags & SYN != 0;
        let ends = (segment.to, segment.from);
        let is_known = self.connections.iter().any(|connection| connection.ends == ends);
        if !is_known && !is_syn {
            return;
        }
        let at = self.connection(ends);
        let connection = &mut self.connections[at];
        if is_syn {
            connection.peer_iss = Some(segment.seq);
            connection.received = segment.seq.wrapping_add(1);
        }
        let start = connection.peer_iss.map(|iss| segment.seq.wrapping_sub(iss).wrapping_sub(1));
        if let Some(start) = start.filter(|_| has_content) {
            let is_right = (0..).zip(segment.data).all(|(at, found)| *found == byte(start.wrapping_add(at)));
            assert!(is_right, "the guest receives other bytes at {start}");
        }
        if segment.seq == connection.received && !is_syn {
            let length = u32::try_from(segment.data.len()).expect("a frame is small");
            let end = segment.seq.wrapping_add(length);
            connection.received = end.wrapping_add(u32::from(segment.flags & FIN != 0));
        }
        if segment.flags & (ACK | RST) == ACK {
            connection.next = segment.ack;
        }
    }
}
