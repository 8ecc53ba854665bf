//! Builds and parses packets for raw sockets.

use std::net::Ipv4Addr;

/// Lengths of headers without options.
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// Flags of a TCP segment (RFC 9293, section 3.1).
pub(super) const SYN: u8 = 1 << 1;
pub(super) const RST: u8 = 1 << 2;
pub(super) const ACK: u8 = 1 << 4;

/// A TCP segment in an IPv4 packet, without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) source: (Ipv4Addr, u16),
    pub(super) destination: (Ipv4Addr, u16),
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// Data of the segment. In a segment that is sent, the number of bytes must be even.
    pub(super) data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns the IPv4 packet. The host's kernel fills in the packet's checksum and length.
    pub(super) fn packet(&self) -> Vec<u8> {
        let mut segment = Vec::with_capacity(TCP_HEADER + self.data.len());
        segment.extend(self.source.1.to_be_bytes());
        segment.extend(self.destination.1.to_be_bytes());
        segment.extend(self.sequence.to_be_bytes());
        segment.extend(self.acknowledged.to_be_bytes());
        // A header of five words, the flags, a window, no checksum yet, and no urgent data.
        segment.extend([5 << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(self.data);
        let (from, to) = (self.source.0.octets(), self.destination.0.octets());
        let [_, _, high, low] = u32::try_from(segment.len()).unwrap_or(0).to_be_bytes();
        let pseudo_header = [&from[..], &to, &[0, 6, high, low]].concat();
        let sum = checksum(&[&pseudo_header[..], &segment].concat());
        segment.splice(16..18, sum.to_be_bytes());
        let mut packet = Vec::with_capacity(IP_HEADER + segment.len());
        packet.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0]);
        packet.extend(from);
        packet.extend(to);
        packet.extend(segment);
        packet
    }

    /// Returns the TCP segment in an IPv4 packet. Returns `None` if the packet contains none.
    pub(super) fn parse(packet: &'a [u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 0xf) * 4;
        let length = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
        let address = |at: usize| -> Option<Ipv4Addr> {
            Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into())
        };
        let segment = packet.get(header..length).filter(|_| packet.get(9) == Some(&6))?;
        let port = |at: usize| Some(u16::from_be_bytes(segment.get(at..at + 2)?.try_into().ok()?));
        let number = |at: usize| Some(u32::from_be_bytes(segment.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            source: (address(12)?, port(0)?),
            destination: (address(16)?, port(2)?),
            flags: *segment.get(13)?,
            sequence: number(4)?,
            acknowledged: number(8)?,
            data: segment.get(usize::from(segment.get(12)? >> 4) * 4..)?,
        })
    }
}

/// Returns a packet with a SYN segment.
pub(super) fn syn(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16), sequence: u32) -> Vec<u8> {
    Segment { source, destination, flags: SYN, sequence, acknowledged: 0, data: &[] }.packet()
}

/// Returns an ICMP echo request (RFC 792) with an identifier. `number` is in the sequence number and in the
/// data.
pub(super) fn echo_request(identifier: u16, number: u32) -> Vec<u8> {
    let [_, _, high, low] = number.to_be_bytes();
    let mut message = vec![8, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend([high, low]);
    message.extend(number.to_be_bytes());
    message.extend([0x55; 48]);
    let sum = checksum(&message);
    message.splice(2..4, sum.to_be_bytes());
    message
}

/// Returns the number in an echo reply, if an IPv4 packet is an echo reply with this identifier.
pub(super) fn echo_reply(identifier: u16, packet: &[u8]) -> Option<u32> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let message = packet.get(header..)?;
    let (kind, rest) = message.split_first()?;
    let is_ours = *kind == 0 && rest.get(3..5)? == identifier.to_be_bytes();
    let number = message.get(8..12)?.try_into().ok()?;
    is_ours.then(|| u32::from_be_bytes(number))
}

/// Returns a router advertisement (RFC 4861, sections 4.2 and 4.6.2) with a prefix of 64 bits for stateless
/// address autoconfiguration. The prefix is valid for ten minutes. The host's kernel fills in the checksum.
pub(super) fn router_advertisement(network: [u16; 4]) -> Vec<u8> {
    let lifetime = 600_u32.to_be_bytes();
    // The router lifetime is 0: this host is not a default router.
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Prefix information option with the on-link and autonomous flags.
    message.extend([3, 4, 64, 0xc0]);
    message.extend(lifetime);
    message.extend(lifetime);
    message.extend([0; 4]);
    message.extend(network.iter().flat_map(|word| word.to_be_bytes()));
    message.extend([0; 8]);
    message
}

/// Returns the Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::{ACK, Segment, checksum, echo_reply, echo_request, router_advertisement, syn};
    use std::net::Ipv4Addr;

    #[test]
    fn checksum_is_that_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let packet = syn((Ipv4Addr::LOCALHOST, 1), (Ipv4Addr::BROADCAST, 80), 7);
        assert_eq!(packet.len(), 40);
        // The checksum over a message with a valid checksum is 0.
        let sum = checksum(&[&packet[12..20], &[0, 6, 0, 20], &packet[20..]].concat());
        assert_eq!(sum, 0);
        assert_eq!(checksum(&echo_request(3, 70_000)), 0);
        assert_eq!(router_advertisement([0; 4]).len(), 48);
    }

    #[test]
    fn segment_is_parsed_as_it_was_built() {
        let (source, destination) = ((Ipv4Addr::LOCALHOST, 1), (Ipv4Addr::BROADCAST, 80));
        let segment =
            Segment { source, destination, flags: ACK, sequence: 7, acknowledged: 1 << 31, data: b"data" };
        let mut packet = segment.packet();
        assert_eq!(packet.len(), 44);
        let sum = checksum(&[&packet[12..20], &[0, 6, 0, 24], &packet[20..]].concat());
        assert_eq!(sum, 0);
        // The kernel fills in the length. Ethernet pads short frames.
        assert_eq!(Segment::parse(&packet), None);
        packet.splice(2..4, [0, 44]);
        packet.extend([0; 2]);
        assert_eq!(Segment::parse(&packet), Some(segment));
        for length in 0..44 {
            assert_eq!(Segment::parse(&packet[..length]), None);
        }
    }

    #[test]
    fn echo_reply_ignores_other_packets() {
        let mut packet = [&[0x45; 20][..], &echo_request(3, 70_000)].concat();
        assert_eq!(echo_reply(3, &packet), None);
        packet[20] = 0;
        assert_eq!(echo_reply(3, &packet), Some(70_000));
        assert_eq!(echo_reply(4, &packet), None);
        assert_eq!(echo_reply(3, &packet[..25]), None);
        assert_eq!(echo_reply(3, &[]), None);
    }
}
