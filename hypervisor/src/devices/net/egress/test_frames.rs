//! Frames for tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flags of TCP.
pub(in crate::devices::net) const SYN: u8 = 2;
pub(in crate::devices::net) const SYN_ACK: u8 = 0x12;

/// An echo request.
pub(in crate::devices::net) const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];

/// Addresses of the guest.
const GUEST_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const GUEST_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);

/// The guest's address.
pub(in crate::devices::net) fn guest(is_v4: bool) -> IpAddr {
    if is_v4 { GUEST_V4.into() } else { GUEST_V6.into() }
}

/// A frame with an IPv4 packet of the guest's.
pub(in crate::devices::net) fn v4(destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let destination: Ipv4Addr = destination.parse().unwrap();
    let [high, low] = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let header = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
    [&[2; 12][..], &[8, 0], &header, &GUEST_V4.octets(), &destination.octets(), payload].concat()
}

/// A frame with an IPv6 packet of the guest's.
pub(in crate::devices::net) fn v6(destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let destination: Ipv6Addr = destination.parse().unwrap();
    let [high, low] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let header = [0x60, 0, 0, 0, high, low, protocol, 64];
    [&[2; 12][..], &[0x86, 0xdd], &header, &GUEST_V6.octets(), &destination.octets(), payload].concat()
}

/// The frame with its addresses exchanged: from its destination to the guest.
pub(in crate::devices::net) fn from(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let (start, size) = if frame[12] == 8 { (26, 4) } else { (22, 16) };
    frame[start..start + 2 * size].rotate_left(size);
    frame
}

/// A TCP segment to this port.
pub(in crate::devices::net) fn tcp(port: u16, flags: u8) -> Vec<u8> {
    [&[0x1f, 0x90][..], &port.to_be_bytes(), &[7; 8], &[0x50, flags], &[0; 6]].concat()
}

/// An empty UDP datagram.
pub(in crate::devices::net) fn udp(source: u16, destination: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, 8, 0, 0]].concat()
}
