//! Packets with invalid source addresses.

use crate::testing::{MILLISECOND, World, header, mac};
use crate::{Errno, Family, Kind};
use core::net::{IpAddr, SocketAddr};
use smoltcp::wire::{IpProtocol, UdpPacket};

/// Sends a datagram to port 7 of the first host.
fn send_from(world: &mut World, source: &str, (from, to): (u16, &str)) {
    let (source, to): (IpAddr, IpAddr) = (source.parse().unwrap(), to.parse().unwrap());
    world.inject(1, mac(0), header(source, to, IpProtocol::Udp, 12), |bytes| {
        bytes.fill(0);
        bytes[0..2].copy_from_slice(&from.to_be_bytes());
        (bytes[3], bytes[5]) = (7, 12);
        UdpPacket::new_unchecked(bytes).fill_checksum(&source.into(), &to.into());
    });
    world.run(10 * MILLISECOND);
}

#[test]
fn datagrams_from_martian_sources_are_dropped() {
    let mut world = World::new(2);
    let echo = world.socket(0, Family::V6, Kind::Datagram);
    world.nodes[0].bind(echo, SocketAddr::new("::".parse().unwrap(), 7)).unwrap();
    for (source, to) in [
        ("0.0.0.0", "10.0.0.1"),
        ("0.0.0.0", "255.255.255.255"),
        ("0.1.2.3", "10.0.0.1"),
        ("127.0.0.1", "10.0.0.1"),
        ("127.9.9.9", "10.0.0.255"),
        ("127.255.255.255", "10.0.0.1"),
        ("224.0.0.1", "10.0.0.1"),
        ("239.1.2.3", "10.0.0.1"),
        ("255.255.255.255", "10.0.0.1"),
        ("10.0.0.255", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("::", "fd00::1"),
        ("::1", "fd00::1"),
        ("ff02::1", "fd00::1"),
        ("::ffff:127.0.0.1", "fd00::1"),
        ("::ffff:10.0.0.9", "fd00::1"),
        ("fd00::1", "fd00::1"),
    ] {
        for port in [7, 68, 9999] {
            send_from(&mut world, source, (port, to));
            assert_eq!(world.receive_from(0, echo), Err(Errno::EAGAIN), "{source} {to}");
        }
    }
    for (source, to) in [("10.0.0.9", "10.0.0.1"), ("9.9.9.9", "10.0.0.255"), ("fd00::9", "fd00::1")] {
        send_from(&mut world, source, (9999, to));
        let (_, from) = world.receive_from(0, echo).unwrap();
        assert_eq!((from.ip().to_canonical(), from.port()), (source.parse().unwrap(), 9999));
    }
}
