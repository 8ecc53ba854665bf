//! Frames whose destination is the loopback of the host to which they are sent.

use super::packet::Packet;

/// Offsets in bytes of the destination in IPv4 and IPv6 packets.
const DESTINATION_V4: usize = 16;
const DESTINATION_V6: usize = 24;

/// Whether Linux would connect a socket to itself for this frame's destination: 0.0.0.0/8 and 127.0.0.0/8 (RFC 1122
/// §3.2.1.3), and in IPv6 `::`, `::1` and addresses of IPv4 (RFC 4291 §2.5), which begin with 80 zero bits.
pub(super) fn is_for_loopback(frame: &[u8]) -> bool {
    match Packet::in_frame(frame) {
        Some(Packet::V4(packet)) => matches!(packet.get(DESTINATION_V4), Some(0 | 127)),
        Some(Packet::V6(packet)) => {
            packet.get(DESTINATION_V6..).is_some_and(|address| address.starts_with(&[0; 10]))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_for_loopback;
    use std::net::IpAddr;

    /// A frame with this destination.
    fn frame(destination: &str) -> Vec<u8> {
        match destination.parse().unwrap() {
            IpAddr::V4(address) => [&[0; 12][..], &[8, 0], &[0x45; 16], &address.octets(), &[1; 8]].concat(),
            IpAddr::V6(address) => {
                [&[0; 12][..], &[0x86, 0xdd], &[0x60; 24], &address.octets(), &[1; 8]].concat()
            }
        }
    }

    #[test]
    fn loopback_destinations_are_recognised() {
        for text in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
        ] {
            assert!(is_for_loopback(&frame(text)), "{text}");
        }
        for text in [
            "10.0.0.1",
            "128.0.0.1",
            "255.255.255.255",
            "169.254.1.1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "64:ff9b::7f00:1",
        ] {
            assert!(!is_for_loopback(&frame(text)), "{text}");
        }
    }

    #[test]
    fn truncated_and_other_frames_are_not_for_the_loopback() {
        for length in 0..30 {
            assert!(!is_for_loopback(&frame("127.0.0.1")[..length]), "{length}");
        }
        for length in 0..48 {
            assert!(!is_for_loopback(&frame("::1")[..length]), "{length}");
        }
        assert!(!is_for_loopback(&[&[0; 12][..], &[8, 6], &[127; 40]].concat()));
    }
}
