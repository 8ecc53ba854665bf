//! Parser of the headers of the guest's frames.
//!
//! Frames are untrusted. The caller copies the first bytes of a frame, and the parser sees only this copy, so
//! the guest cannot change a header after its check. The data stays in guest memory: the parser returns the
//! data's position in the frame, and checks that it is within the frame. The parser refuses frames that the
//! network does not carry, such as fragments and packets with options.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use hermit_tcp::{Flags, Seq};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, TcpOption,
    TcpPacket, UdpPacket,
};

/// Maximum size in bytes of all headers of a frame: Ethernet, IPv6, and TCP with options.
pub const MAX_HEADERS: usize = 14 + 40 + 60;

/// Size in bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// Sizes in bytes of headers without options.
pub(crate) const IPV4: usize = 20;
pub(crate) const IPV6: usize = 40;
pub(crate) const TCP: usize = 20;
pub(crate) const UDP: usize = 8;

/// Contents of a frame.
#[derive(Debug)]
pub(crate) enum Parsed {
    Arp,
    Ip(Packet),
}

/// IP packet without options, extension headers and fragments.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpProtocol,
    /// Position of the payload in the frame.
    pub(crate) payload: Range<usize>,
}

/// TCP segment, without its data.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Addresses of guest and peer.
    pub(crate) ends: Ends,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    /// Window as in the header, without scaling.
    pub(crate) window: u16,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    /// Position of the data in the frame.
    pub(crate) data: Range<usize>,
}

/// Both ends of a flow, as the guest sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) guest: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// Parses a frame of `length` bytes from the guest, whose MAC address is `mac`. `head` has the first bytes of
/// the frame. Returns `None` for a frame that the network does not carry.
pub(crate) fn frame(head: &[u8], length: usize, mac: [u8; 6]) -> Option<Parsed> {
    let frame = EthernetFrame::new_checked(head).ok()?;
    if frame.src_addr() != EthernetAddress(mac) {
        return None;
    }
    match frame.ethertype() {
        EthernetProtocol::Arp => Some(Parsed::Arp),
        EthernetProtocol::Ipv4 => packet_v4(head.get(ETHERNET..)?, length).map(Parsed::Ip),
        EthernetProtocol::Ipv6 => packet_v6(head.get(ETHERNET..)?, length).map(Parsed::Ip),
        EthernetProtocol::Unknown(_) => None,
    }
}

fn packet_v4(bytes: &[u8], length: usize) -> Option<Packet> {
    // Not `new_checked`, which would require the whole packet.
    let packet = Ipv4Packet::new_unchecked(bytes.get(..IPV4)?);
    let is_whole = !packet.more_frags() && packet.frag_offset() == 0;
    // A header with options is longer. A source route (RFC 791 §3.1) would lead to another address.
    let is_plain = packet.version() == 4 && usize::from(packet.header_len()) == IPV4;
    let end = ETHERNET + usize::from(packet.total_len());
    (is_whole && is_plain && end <= length && ETHERNET + IPV4 <= end).then(|| Packet {
        source: packet.src_addr().into(),
        destination: packet.dst_addr().into(),
        protocol: packet.next_header(),
        payload: ETHERNET + IPV4..end,
    })
}

fn packet_v6(bytes: &[u8], length: usize) -> Option<Packet> {
    let packet = Ipv6Packet::new_unchecked(bytes.get(..IPV6)?);
    let start = ETHERNET + IPV6;
    let end = start + usize::from(packet.payload_len());
    (packet.version() == 6 && end <= length).then(|| Packet {
        source: packet.src_addr().into(),
        destination: packet.dst_addr().into(),
        protocol: packet.next_header(),
        payload: start..end,
    })
}

impl Packet {
    /// Returns the TCP segment in the packet. Does not verify the checksum, because frames are not corrupted
    /// between the guest and this process.
    pub(crate) fn segment(&self, head: &[u8]) -> Option<Segment> {
        let Range { start, end } = self.payload;
        let bytes = head.get(start..)?;
        let header = TcpPacket::new_unchecked(bytes.get(..TCP)?);
        let size = usize::from(header.header_len());
        let options = bytes.get(TCP..size)?;
        if start + size > end || header.src_port() == 0 || header.dst_port() == 0 {
            return None;
        }
        let (mss, window_scale) = options_of_syn(options);
        Some(Segment {
            ends: self.ends(header.src_port(), header.dst_port()),
            seq: Seq(header.seq_number().0.cast_unsigned()),
            ack: Seq(header.ack_number().0.cast_unsigned()),
            flags: Flags::from_bits_retain(*bytes.get(13)?),
            window: header.window_len(),
            mss,
            window_scale,
            data: start + size..end,
        })
    }

    /// Returns the ends of the UDP datagram in the packet, and the position of its data. Returns `None` for
    /// an invalid datagram, and for a datagram without a source port, which cannot be answered.
    pub(crate) fn datagram(&self, head: &[u8]) -> Option<(Ends, Range<usize>)> {
        let Range { start, end } = self.payload;
        let header = UdpPacket::new_unchecked(head.get(start..)?.get(..UDP)?);
        let data_end = start + usize::from(header.len());
        let is_valid = data_end <= end && start + UDP <= data_end;
        let is_valid = is_valid && header.src_port() != 0 && header.dst_port() != 0;
        is_valid.then(|| (self.ends(header.src_port(), header.dst_port()), start + UDP..data_end))
    }

    fn ends(&self, source: u16, destination: u16) -> Ends {
        Ends {
            guest: SocketAddr::new(self.source, source),
            peer: SocketAddr::new(self.destination, destination),
        }
    }
}

/// Returns the maximum segment size and the window scale of a SYN.
fn options_of_syn(mut options: &[u8]) -> (Option<u16>, Option<u8>) {
    let (mut mss, mut scale) = (None, None);
    while let Ok((rest, option)) = TcpOption::parse(options) {
        match option {
            TcpOption::EndOfList => break,
            TcpOption::MaxSegmentSize(size) => mss = Some(size),
            TcpOption::WindowScale(shift) => scale = Some(shift),
            _ => {}
        }
        options = rest;
    }
    (mss, scale)
}

#[cfg(test)]
mod tests {
    use super::{MAX_HEADERS, Parsed, frame};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    const MAC: [u8; 6] = [2; 6];

    /// Returns the start of a frame with this EtherType.
    fn ethernet(ether_type: [u8; 2]) -> Vec<u8> {
        [&[0x52; 6][..], &MAC, &ether_type].concat()
    }

    fn v4(edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut packet = [0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 2, 15, 192, 0, 2, 1].to_vec();
        packet.extend([0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 4, 0, 0, 0, 0, 0, 2, 4, 5, 180]);
        edit(&mut packet);
        [ethernet([8, 0]), packet].concat()
    }

    fn is_segment(bytes: &[u8]) -> bool {
        match frame(bytes, bytes.len(), MAC) {
            Some(Parsed::Ip(packet)) => packet.segment(bytes).is_some(),
            _ => false,
        }
    }

    #[test]
    fn segment_has_its_ends_and_options() {
        let bytes = v4(|_| {});
        let Some(Parsed::Ip(packet)) = frame(&bytes, bytes.len(), MAC) else { panic!() };
        let segment = packet.segment(&bytes).unwrap();
        assert_eq!(segment.ends.guest, "10.0.2.15:9".parse().unwrap());
        assert_eq!(segment.ends.peer, "192.0.2.1:80".parse().unwrap());
        assert_eq!((segment.mss, segment.window_scale), (Some(1460), None));
        assert!(segment.data.is_empty() && segment.data.end == bytes.len());
    }

    #[test]
    fn options_fragments_and_other_senders_are_not_carried() {
        assert!(is_segment(&v4(|_| {})));
        assert!(!is_segment(&v4(|packet| packet[0] = 0x46)));
        assert!(!is_segment(&v4(|packet| packet[0] = 0x65)));
        assert!(!is_segment(&v4(|packet| packet[6] = 0x20)));
        assert!(!is_segment(&v4(|packet| packet[7] = 1)));
        assert!(!is_segment(&v4(|packet| packet[20..22].fill(0))));
        let bytes = v4(|_| {});
        assert!(frame(&bytes, bytes.len(), [3; 6]).is_none());
    }

    #[test]
    fn lengths_beyond_the_frame_are_refused() {
        let bytes = v4(|_| {});
        for length in 0..bytes.len() {
            assert!(!is_segment(&bytes[..length]), "{length}");
        }
        // A total length within the headers, and a TCP header beyond the packet.
        assert!(!is_segment(&v4(|packet| packet[3] = 19)));
        assert!(!is_segment(&v4(|packet| packet[32] = 0x70)));
        assert!(!is_segment(&v4(|packet| packet[32] = 0x40)));
    }

    proptest! {
        #[test]
        fn payloads_are_within_the_frame(
            bytes in vec(any::<u8>(), 0..200),
            kind in 0..3_usize,
            more in 0..70_000_usize,
        ) {
            let bytes = [ethernet([[8, 0], [8, 6], [0x86, 0xdd]][kind]), bytes].concat();
            let head = &bytes[..bytes.len().min(MAX_HEADERS)];
            let length = bytes.len() + more;
            if let Some(Parsed::Ip(packet)) = frame(head, length, MAC) {
                prop_assert!(packet.payload.start <= packet.payload.end && packet.payload.end <= length);
                if let Some(segment) = packet.segment(head) {
                    prop_assert!(segment.data.start <= segment.data.end && segment.data.end <= length);
                }
                if let Some((_, data)) = packet.datagram(head) {
                    prop_assert!(data.start <= data.end && data.end <= length);
                }
            }
        }
    }
}
