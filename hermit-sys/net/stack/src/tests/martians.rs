//! Packets with invalid source addresses.

use crate::testing::{MILLISECOND, World, header, mac, v4, v6};
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
fn unicast_packets_in_broadcast_frames_are_dropped() {
    use crate::testing::peer::{Peer, SYN};
    use smoltcp::wire::TcpSeqNumber;
    let mut world = World::new(2);
    let listener = world.listen(0, 80, 4);
    let echo = world.socket(0, Family::V6, Kind::Datagram);
    world.nodes[0].bind(echo, SocketAddr::new("::".parse().unwrap(), 7)).unwrap();
    let group = [0x33, 0x33, 0, 0, 0, 1];
    for (ethernet, is_received) in [([0xff; 6], false), (group, false), (mac(0), true)] {
        for (source, to) in [("10.0.0.9", "10.0.0.1"), ("fd00::9", "fd00::1")] {
            let (source, to): (IpAddr, IpAddr) = (source.parse().unwrap(), to.parse().unwrap());
            world.inject(1, ethernet, header(source, to, IpProtocol::Udp, 12), |bytes| {
                bytes.copy_from_slice(&[0, 9, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]);
                UdpPacket::new_unchecked(bytes).fill_checksum(&source.into(), &to.into());
            });
            world.run(10 * MILLISECOND);
            assert_eq!(world.receive(0, echo).is_ok(), is_received, "{ethernet:?} {to}");
            let ends = (SocketAddr::new(source, 9), SocketAddr::new(to, 80));
            let zero = TcpSeqNumber(0);
            let peer = Peer { node: 0, ends, first: zero, acknowledged: zero, window: 9 };
            peer.send_to(&mut world, ethernet, SYN, zero, (&[], &[]));
            world.run(10 * MILLISECOND);
            let half_open = world.nodes[0].layers.tcp.half_open().len();
            assert_eq!(half_open > 0, is_received, "{ethernet:?} {to}");
        }
    }
    // A broadcast is received.
    send_from(&mut world, "10.0.0.9", (9, "10.0.0.255"));
    assert!(world.receive(0, echo).is_ok());
    world.nodes[0].close(listener).unwrap();
}

#[test]
fn packets_to_groups_cause_no_errors() {
    let mut world = World::new(2);
    let listener = world.listen(0, 80, 4);
    // Both hosts resolve each other.
    for address in [v4(0), v6(0)] {
        world.connect(1, SocketAddr::new(address, 80), (0, listener));
    }
    let group = [0x33, 0x33, 0, 0, 0, 1];
    let cases = [
        (mac(0), "10.0.0.1", 1),
        (mac(0), "fd00::1", 1),
        ([0xff; 6], "10.0.0.1", 0),
        (group, "fd00::1", 0),
        ([0xff; 6], "10.0.0.255", 0),
        (group, "ff02::1", 0),
    ];
    for (ethernet, to, count) in cases {
        world.wire.borrow_mut().log = Some(std::vec![]);
        let to: IpAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { v4(1) } else { v6(1) };
        world.inject(1, ethernet, header(from, to, IpProtocol::Unknown(200), 20), |bytes| bytes.fill(7));
        world.run(MILLISECOND);
        let frames = world.wire.borrow_mut().log.take().unwrap();
        assert_eq!(frames.len() - 1, count, "{to}");
    }
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
