//! Packets that are sent on raw sockets.

use std::net::Ipv4Addr;

/// Lengths of headers without options.
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// A SYN segment (RFC 9293, section 3.1) in an IPv4 packet whose checksum and length the host's kernel fills in.
pub(super) fn syn(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16), sequence: u32) -> Vec<u8> {
    let mut segment = Vec::with_capacity(TCP_HEADER);
    segment.extend(source.1.to_be_bytes());
    segment.extend(destination.1.to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(0_u32.to_be_bytes());
    // Five words of header, SYN, and a window; no checksum yet; nothing is urgent.
    segment.extend([5 << 4, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    let (from, to) = (source.0.octets(), destination.0.octets());
    let pseudo_header = [&from[..], &to, &[0, 6, 0, 20]].concat();
    let sum = checksum(&[&pseudo_header[..], &segment].concat());
    segment.splice(16..18, sum.to_be_bytes());
    let mut packet = Vec::with_capacity(IP_HEADER + TCP_HEADER);
    packet.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(segment);
    packet
}

/// An ICMP echo request (RFC 792) with an identifier. The number is in the sequence number and in the data.
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

/// The number in an echo reply, if an IPv4 packet is one with this identifier.
pub(super) fn echo_reply(identifier: u16, packet: &[u8]) -> Option<u32> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let message = packet.get(header..)?;
    let (kind, rest) = message.split_first()?;
    let is_ours = *kind == 0 && rest.get(3..5)? == identifier.to_be_bytes();
    let number = message.get(8..12)?.try_into().ok()?;
    is_ours.then(|| u32::from_be_bytes(number))
}

/// A router advertisement of a prefix of 64 bits for stateless address autoconfiguration, valid for ten minutes (RFC 4861,
/// sections 4.2 and 4.6.2). The host's kernel fills in the checksum.
pub(super) fn router_advertisement(network: [u16; 4]) -> Vec<u8> {
    let lifetime = 600_u32.to_be_bytes();
    // Router lifetime 0: it is no default router.
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

/// The Internet checksum (RFC 1071) over an even number of bytes.
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
    use super::{checksum, echo_reply, echo_request, router_advertisement, syn};
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
