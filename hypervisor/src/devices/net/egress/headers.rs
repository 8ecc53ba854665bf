//! Parser of a frame's headers, for the egress filter. It finds the addresses, and whether the frame opens a
//! connection.
//!
//! The parser and the frame's receiver must understand a frame in the same way. Otherwise a guest could hide
//! a connection. So the parser refuses truncated headers, and frames that receivers may interpret
//! differently, such as those with a VLAN tag, IPv4 options or a route. It also returns the number of bytes
//! that it has examined. The filter's caller sends a copy of these bytes, because the guest may change its
//! memory meanwhile.

use std::net::IpAddr;

/// Offset in bytes of the EtherType, and size of an Ethernet header.
const ETHER_TYPE: usize = 12;
const ETHERNET: usize = ETHER_TYPE + 2;

/// Size in bytes of an IPv4 header, and offsets of its fields. A header with options is longer, and is
/// refused: a source route (RFC 791 §3.1) would send the packet to another address.
const HEADER_V4: usize = 20;
const FRAGMENT_V4: usize = 6;
const PROTOCOL_V4: usize = 9;
const ADDRESSES_V4: usize = 12;

/// First byte of an IPv4 header without options.
const VERSION_V4: u8 = 0x45;

/// Bits of an IPv4 header's fragment field that the parser ignores: reserved, and "don't fragment".
const FRAGMENT_FLAGS: u16 = 0xc000;

/// Size in bytes of an IPv6 header, and offsets of its fields.
const HEADER_V6: usize = 40;
const NEXT_HEADER_V6: usize = 6;
const ADDRESSES_V6: usize = 8;

/// Maximum number of extension headers of a packet. Hosts send one or two.
const MAX_EXTENSIONS: usize = 8;

/// Protocol numbers.
const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ICMP_V6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;

/// Offset in bytes of the flags in a TCP header, and values of flags (RFC 9293 §3.1).
const FLAGS: usize = 13;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Types of ICMP messages that answer or report an error: echo reply, destination unreachable, time exceeded,
/// parameter problem (RFC 792).
const ANSWERS_V4: [u8; 4] = [0, 3, 11, 12];

/// Types of ICMPv6 messages that answer or report an error (RFC 4443), or belong to the link: group
/// membership (RFC 9777) and neighbor discovery (RFC 4861), without those that only a router sends.
const ANSWERS_V6: [u8; 11] = [1, 2, 3, 4, 129, 131, 132, 133, 135, 136, 143];

/// The parts of a frame that matter to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// ARP, which stays on the link.
    Arp,
    Ip(Packet),
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) content: Content,
    /// Number of bytes at the beginning of the frame that the decision depends on.
    pub(super) end: usize,
}

/// Content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A TCP segment. `opens` is true if it opens a connection: the first SYN.
    Tcp { destination: u16, opens: bool },
    /// A UDP datagram.
    Udp { source: u16, destination: u16 },
    /// A message of ICMP that answers, reports an error, or belongs to the link.
    IcmpAnswer,
    /// Any other content: another protocol, or a fragment (only the first fragment of a datagram has the
    /// ports). The filter assumes that such a packet opens a connection.
    Other,
}

/// Reads the headers of a frame. Returns `None` unless the frame is ARP or a complete IP packet without a
/// source route. Also returns `None` for a frame with a VLAN tag: a packet could be hidden after the tag.
pub(super) fn parse(frame: &[u8]) -> Option<Frame> {
    let (header, packet) = frame.split_at_checked(ETHERNET)?;
    match header.get(ETHER_TYPE..)? {
        [0x08, 0x06] => Some(Frame::Arp),
        [0x08, 0x00] => parse_v4(packet).map(Frame::Ip),
        [0x86, 0xdd] => parse_v6(packet).map(Frame::Ip),
        _ => None,
    }
}

fn parse_v4(packet: &[u8]) -> Option<Packet> {
    let (header, payload) = packet.split_at_checked(HEADER_V4)?;
    if *header.first()? != VERSION_V4 {
        return None;
    }
    let is_fragment = word(header, FRAGMENT_V4)? & !FRAGMENT_FLAGS != 0;
    let protocol = *header.get(PROTOCOL_V4)?;
    let (content, end) = if is_fragment { (Content::Other, 0) } else { content(protocol, ICMP, payload)? };
    let address = |offset| Some(IpAddr::from(*header.get(offset..)?.first_chunk::<4>()?));
    let (source, destination) = (address(ADDRESSES_V4)?, address(ADDRESSES_V4 + 4)?);
    Some(Packet { source, destination, content, end: ETHERNET + HEADER_V4 + end })
}

fn parse_v6(packet: &[u8]) -> Option<Packet> {
    let (header, mut payload) = packet.split_at_checked(HEADER_V6)?;
    if header.first()? >> 4 != 6 {
        return None;
    }
    let address = |offset| Some(IpAddr::from(*header.get(offset..)?.first_chunk::<16>()?));
    let (source, destination) = (address(ADDRESSES_V6)?, address(ADDRESSES_V6 + 16)?);
    let mut protocol = *header.get(NEXT_HEADER_V6)?;
    for _ in 0..=MAX_EXTENSIONS {
        let extension = match protocol {
            HOP_BY_HOP | DESTINATION_OPTIONS => payload,
            // RFC 8200 §4.4: if Segments Left is zero, the packet has reached the last hop of its route.
            ROUTING if *payload.get(3)? == 0 => payload,
            ROUTING => return None,
            // An atomic fragment is a whole packet (RFC 6946).
            FRAGMENT if word(payload, 2)? & 0xfff9 == 0 => payload,
            _ => {
                let (content, end) = if protocol == FRAGMENT {
                    (Content::Other, 0)
                } else {
                    content(protocol, ICMP_V6, payload)?
                };
                let end = ETHERNET + packet.len() - payload.len() + end;
                return Some(Packet { source, destination, content, end });
            }
        };
        let units = if protocol == FRAGMENT { 0 } else { *extension.get(1)? };
        protocol = *extension.first()?;
        payload = payload.get((usize::from(units) + 1) * 8..)?;
    }
    None
}

/// Returns the content of a packet, and the number of bytes of its payload that the decision depends on.
fn content(protocol: u8, icmp: u8, payload: &[u8]) -> Option<(Content, usize)> {
    Some(match protocol {
        TCP => {
            let opens = *payload.get(FLAGS)? & (SYN | ACK) == SYN;
            (Content::Tcp { destination: word(payload, 2)?, opens }, FLAGS + 1)
        }
        UDP => (Content::Udp { source: word(payload, 0)?, destination: word(payload, 2)? }, 4),
        _ if protocol == icmp => {
            let answers: &[u8] = if icmp == ICMP { &ANSWERS_V4 } else { &ANSWERS_V6 };
            let is_answer = answers.contains(payload.first()?);
            (if is_answer { Content::IcmpAnswer } else { Content::Other }, 1)
        }
        _ => (Content::Other, 0),
    })
}

/// Returns the 16-bit number in network byte order at `offset`; `None` after the end.
fn word(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::{Content, Frame, Packet, parse};
    use crate::devices::net::egress::test_frames::{self as frames, ECHO, SYN, SYN_ACK, tcp, udp, v4, v6};

    fn packet(frame: &[u8]) -> Packet {
        match parse(frame) {
            Some(Frame::Ip(packet)) => packet,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn connection_is_opened_by_the_first_syn_only() {
        for (flags, opens) in
            [(SYN, true), (SYN | 0xc0, true), (SYN | 5, true), (SYN_ACK, false), (0x10, false), (4, false)]
        {
            for frame in [v4("10.0.0.1", 6, &tcp(80, flags)), v6("fd00::1", 6, &tcp(80, flags))] {
                let Packet { content, end, .. } = packet(&frame);
                assert_eq!(content, Content::Tcp { destination: 80, opens }, "{flags:#x}");
                assert_eq!(end, frame.len() - 6);
            }
        }
    }

    #[test]
    fn datagrams_have_ports_and_messages_types() {
        for (frame, destination) in
            [(v4("10.0.0.1", 17, &udp(1, 53)), "10.0.0.1"), (v6("fd00::1", 17, &udp(1, 53)), "fd00::1")]
        {
            let found = packet(&frame);
            assert_eq!(found.content, Content::Udp { source: 1, destination: 53 });
            assert_eq!(found.destination, destination.parse::<std::net::IpAddr>().unwrap());
            assert_eq!(found.source, frames::guest(found.destination.is_ipv4()));
        }
        for (frame, is_answer) in [
            (v4("10.0.0.1", 1, &[0; 8]), true),
            (v4("10.0.0.1", 1, &[3; 8]), true),
            (v4("10.0.0.1", 1, &ECHO), false),
            (v4("10.0.0.1", 58, &[129; 8]), false),
            (v6("fd00::1", 58, &[129; 8]), true),
            (v6("fd00::1", 58, &[135; 8]), true),
            (v6("fd00::1", 58, &[128; 8]), false),
            (v6("fd00::1", 58, &[134; 8]), false),
            (v6("fd00::1", 1, &[0; 8]), false),
            (v4("10.0.0.1", 47, &[]), false),
            (v6("fd00::1", 59, &[]), false),
        ] {
            assert_eq!(packet(&frame).content == Content::IcmpAnswer, is_answer, "{frame:?}");
        }
    }

    #[test]
    fn fragments_open_something_whatever_they_contain() {
        for (field, is_fragment) in
            [(0x4000_u16, false), (0x8000, false), (0x2000, true), (1, true), (0x1fff, true)]
        {
            let mut frame = v4("10.0.0.1", 6, &tcp(80, SYN_ACK));
            frame[20..22].copy_from_slice(&field.to_be_bytes());
            assert_eq!(packet(&frame).content == Content::Other, is_fragment, "{field:#x}");
            // A fragment need not have a whole TCP header.
            frame.truncate(34);
            assert_eq!(parse(&frame).is_some(), is_fragment);
        }
        for (field, is_fragment) in [(0_u16, false), (6, false), (1, true), (8, true), (0xfff9, true)] {
            let [high, low] = field.to_be_bytes();
            let header = [6, 0xff, high, low, 0, 0, 0, 1];
            let frame = v6("fd00::1", 44, &[&header[..], &tcp(80, SYN_ACK)].concat());
            assert_eq!(packet(&frame).content == Content::Other, is_fragment, "{field:#x}");
        }
    }

    #[test]
    fn extension_headers_are_skipped_up_to_a_bound() {
        let header = |kind: u8, next: u8| match kind {
            43 => vec![next, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            44 => vec![next, 0, 0, 0, 0, 0, 0, 1],
            _ => vec![next, 0, 1, 4, 0, 0, 0, 0],
        };
        let chain = |kinds: &[u8]| {
            let next = kinds[1..].iter().chain([&6]);
            let headers = kinds.iter().zip(next).flat_map(|(&kind, &next)| header(kind, next));
            v6("fd00::1", kinds[0], &[&headers.collect::<Vec<u8>>()[..], &tcp(80, SYN)].concat())
        };
        for kinds in [&[0][..], &[60], &[43], &[44], &[0, 60, 43, 44, 60], &[60; 8]] {
            let frame = chain(kinds);
            let found = packet(&frame);
            assert_eq!(found.content, Content::Tcp { destination: 80, opens: true }, "{kinds:?}");
            assert_eq!(found.end, frame.len() - 6);
        }
        assert_eq!(parse(&chain(&[60; 9])), None);
        // Segments Left is one: the packet goes on to another destination.
        let mut routed = chain(&[43]);
        routed[14 + 40 + 3] = 1;
        assert_eq!(parse(&routed), None);
    }

    #[test]
    fn options_tags_and_other_frames_are_refused() {
        let mut arp = v4("10.0.0.1", 6, &tcp(80, SYN));
        arp[13] = 6;
        assert_eq!(parse(&arp), Some(Frame::Arp));
        for ether_type in [[0x81, 0], [0x88, 0xa8], [0x88, 0x47], [0, 46], [0x88, 0xcc]] {
            let mut frame = arp.clone();
            frame[12..14].copy_from_slice(&ether_type);
            assert_eq!(parse(&frame), None);
        }
        for (mut frame, versions) in [
            (v4("10.0.0.1", 6, &tcp(80, SYN)), [0x46, 0x44, 0x65]),
            (v6("fd00::1", 6, &tcp(80, SYN)), [0x45, 0x70, 0]),
        ] {
            for version in versions {
                frame[14] = version;
                assert_eq!(parse(&frame), None, "{version:#x}");
            }
        }
    }

    #[test]
    fn truncated_frames_are_refused() {
        let extended = [&[6, 1, 1, 12][..], &[0; 12], &tcp(80, SYN)].concat();
        for frame in [
            v4("10.0.0.1", 6, &tcp(80, SYN)),
            v4("10.0.0.1", 17, &udp(1, 2)),
            v6("fd00::1", 6, &tcp(80, SYN)),
            v6("fd00::1", 0, &extended),
        ] {
            let Packet { end, .. } = packet(&frame);
            assert!((0..end).all(|length| parse(&frame[..length]).is_none()));
            assert_eq!(packet(&frame[..end]), packet(&frame));
        }
    }
}
