//! UDP sockets.
//!
//! The tests cover the delivery of whole datagrams, connected sockets, bindings and their conflicts, bounded
//! queues, fragments, and errors by ICMP.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{SECOND, World, configuration, pattern, v4, v6};
use crate::{Errno, Family, Kind, OptionName, Readiness, Shutdown, SocketId, SocketOption};
use core::net::{IpAddr, SocketAddr};
use std::vec;
use std::vec::Vec;

pub(super) fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

fn mapped(node: usize, port: u16) -> SocketAddr {
    let IpAddr::V4(address) = v4(node) else { panic!() };
    at(address.to_ipv6_mapped().into(), port)
}

pub(super) fn bound(world: &mut World, node: usize, address: &str) -> SocketId {
    let address: SocketAddr = address.parse().unwrap();
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    let socket = world.socket(node, family, Kind::Datagram);
    world.nodes[node].bind(socket, address).unwrap();
    socket
}

#[test]
fn settle_returns_the_time_of_the_next_solicitation() {
    let mut world = World::new(2);
    let socket = world.socket(0, Family::V4, Kind::Datagram);
    world.wire.borrow_mut().is_cut = true;
    let _ = world.nodes[0].send(socket, b"x", Some(SocketAddr::new(v4(1), 53)));
    let now = world.now;
    let polled = world.nodes[0].poll(now);
    assert!(polled.is_some());
    assert_eq!(world.nodes[0].settle(now), polled);
}

#[test]
fn datagrams_arrive_whole_with_sender() {
    for (node, address) in [(0, v4(1)), (0, v6(1)), (1, v4(1)), (1, v6(1))] {
        let mut world = World::new(2);
        let receiver = bound(&mut world, 1, "[::]:53");
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let sender = world.socket(node, family, Kind::Datagram);
        let only_write = Readiness { write: true, ..Readiness::default() };
        assert_eq!((world.readiness(1, receiver), world.readiness(node, sender)), (only_write, only_write));
        let largest = if address.is_ipv4() { 65_507 } else { 65_527 };
        for bytes in [vec![], vec![1], pattern(1400), pattern(5000), pattern(largest)] {
            assert_eq!(world.nodes[node].send(sender, &bytes, Some(at(address, 53))), Ok(bytes.len()));
            assert!(world.run_until(SECOND, |world| world.readiness(1, receiver).read));
            let (received, from) = world.receive_from(1, receiver).unwrap();
            assert!(received == bytes, "{}", bytes.len());
            let expected =
                if address.is_ipv4() { mapped(node, from.port()) } else { at(v6(node), from.port()) };
            assert_eq!(from, expected);
            // And back.
            world.nodes[1].send(receiver, b"answer", Some(from)).unwrap();
            assert!(world.run_until(SECOND, |world| world.readiness(node, sender).read));
            let answer = world.receive_from(node, sender).unwrap();
            assert_eq!(answer, (b"answer".to_vec(), at(address, 53)));
        }
        assert_eq!(world.receive(1, receiver), Err(Errno::EAGAIN));
        assert_eq!(
            world.nodes[node].send(sender, &pattern(largest + 1), Some(at(address, 53))),
            Err(Errno::EMSGSIZE)
        );
        world.nodes[node].close(sender).unwrap();
        world.nodes[1].close(receiver).unwrap();
        world.assert_nothing_left(0);
    }
}

#[test]
fn truncated_datagram_is_lost_unless_peeked() {
    let mut world = World::new(1);
    let socket = bound(&mut world, 0, "127.0.0.1:9");
    let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
    world.nodes[0].send(socket, b"first", Some(here)).unwrap();
    world.nodes[0].send(socket, b"second", Some(here)).unwrap();
    let mut take = |count: usize, peek| {
        let mut seen = Vec::new();
        let mut sink = |bytes: &[u8]| {
            seen.extend_from_slice(&bytes[..count.min(bytes.len())]);
            count.min(bytes.len())
        };
        let result = world.nodes[0].receive(socket, peek, &mut sink);
        result.map(|(taken, from)| (taken, from.unwrap(), seen))
    };
    assert_eq!(take(2, true), Ok((2, here, b"fi".to_vec())));
    assert_eq!(take(9, true), Ok((5, here, b"first".to_vec())));
    assert_eq!(take(2, false), Ok((2, here, b"fi".to_vec())));
    assert_eq!(take(9, false), Ok((6, here, b"second".to_vec())));
    assert_eq!(take(9, false), Err(Errno::EAGAIN));
}

#[test]
fn connected_socket_receives_from_its_peer_only() {
    let mut world = World::new(3);
    let socket = bound(&mut world, 0, "0.0.0.0:7");
    assert_eq!(world.nodes[0].remote(socket), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].send(socket, b"x", None), Err(Errno::EDESTADDRREQ));
    assert_eq!(world.nodes[0].shutdown(socket, Shutdown::Both), Err(Errno::ENOTCONN));
    world.nodes[0].connect(socket, at(v4(1), 7)).unwrap();
    assert_eq!(world.nodes[0].remote(socket), Ok(at(v4(1), 7)));
    assert_eq!(world.nodes[0].local(socket), Ok(at(v4(0), 7)));
    let friend = bound(&mut world, 1, "0.0.0.0:7");
    let stranger = bound(&mut world, 2, "0.0.0.0:7");
    world.nodes[2].send(stranger, b"spam", Some(at(v4(0), 7))).unwrap();
    world.run(SECOND);
    assert!(!world.readiness(0, socket).read);
    world.nodes[1].send(friend, b"hello", Some(at(v4(0), 7))).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, socket), Ok(b"hello".to_vec()));
    world.nodes[0].send(socket, b"back", None).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(1, friend), Ok(b"back".to_vec()));
    world.nodes[0].disconnect(socket).unwrap();
    world.nodes[2].send(stranger, b"spam", Some(at(v4(0), 7))).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, socket), Ok(b"spam".to_vec()));
    assert_eq!(world.nodes[0].local(socket), Ok("0.0.0.0:7".parse().unwrap()));
}

#[test]
fn disconnect_releases_an_ephemeral_port() {
    let mut world = World::new(1);
    for own in ["127.0.0.1:7", "127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:7"] {
        let socket = bound(&mut world, 0, own);
        let remote = if own.starts_with('[') { "[::1]:9" } else { "127.0.0.1:9" };
        world.nodes[0].connect(socket, remote.parse().unwrap()).unwrap();
        world.nodes[0].disconnect(socket).unwrap();
        assert_eq!(world.nodes[0].local(socket), Ok(own.parse().unwrap()));
        world.nodes[0].send(socket, b"x", Some(remote.parse().unwrap())).unwrap();
        assert_ne!(world.nodes[0].local(socket).unwrap().port(), 0);
        world.nodes[0].close(socket).unwrap();
    }
    assert!((1..=u16::MAX).all(|port| world.nodes[0].layers.udp.ports.is_unused(port)));
}

#[test]
fn datagram_to_unused_port_is_refused() {
    for (node, address) in [(0, v4(1)), (0, v6(1)), (1, v4(1)), (1, "::1".parse().unwrap())] {
        let mut world = World::new(2);
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = world.socket(node, family, Kind::Datagram);
        // Unconnected sockets get no pending error.
        world.nodes[node].send(socket, b"x", Some(at(address, 9))).unwrap();
        world.run(SECOND);
        assert_eq!(world.receive(node, socket), Err(Errno::EAGAIN));
        world.nodes[node].connect(socket, at(address, 9)).unwrap();
        world.nodes[node].send(socket, b"x", None).unwrap();
        assert!(world.run_until(SECOND, |world| world.readiness(node, socket).error), "{address}");
        assert_eq!(world.receive(node, socket), Err(Errno::ECONNREFUSED));
        assert_eq!(world.receive(node, socket), Err(Errno::EAGAIN));
        world.nodes[node].send(socket, b"x", None).unwrap();
        world.run(SECOND);
        assert_eq!(world.nodes[node].send(socket, b"x", None), Err(Errno::ECONNREFUSED));
        assert_eq!(world.nodes[node].option(socket, OptionName::Error), Ok(0));
    }
}

#[test]
fn receive_queue_is_bounded() {
    let mut world = World::new(1);
    let socket = bound(&mut world, 0, "127.0.0.1:9");
    let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
    for _ in 0..if cfg!(miri) { 220 } else { 1000 } {
        assert_eq!(world.nodes[0].send(socket, &[7; 1000], Some(here)), Ok(1000));
    }
    let used = world.nodes[0].layers.buffers.used();
    assert!((150_000..=212_992).contains(&used), "{used}");
    let mut count = 0;
    while world.receive(0, socket).is_ok() {
        count += 1;
    }
    assert!((100..200).contains(&count), "{count}");
    world.nodes[0].send(socket, b"x", Some(here)).unwrap();
    world.nodes[0].close(socket).unwrap();
    world.assert_nothing_left(0);
}

#[test]
fn full_device_blocks_the_sender() {
    let mut world = World::new(2);
    let receiver = bound(&mut world, 1, "0.0.0.0:9");
    let sender = bound(&mut world, 0, "0.0.0.0:0");
    let to = Some(at(v4(1), 9));
    world.nodes[0].send(sender, b"learn", to).unwrap();
    world.run(SECOND);
    world.nodes[0].device().unwrap().room = Some(1);
    assert_eq!(world.nodes[0].send(sender, b"one", to), Ok(3));
    assert_eq!(world.nodes[0].send(sender, b"two", to), Err(Errno::EAGAIN));
    assert!(!world.readiness(0, sender).write);
    world.nodes[0].host().woken.clear();
    world.run(SECOND / 100);
    assert!(!world.readiness(0, sender).write);
    world.nodes[0].device().unwrap().room = None;
    world.run(SECOND / 100);
    assert!(world.readiness(0, sender).write && world.nodes[0].host().woken.contains(&1000));
    assert_eq!(world.nodes[0].send(sender, b"two", to), Ok(3));
    world.run(SECOND);
    for expected in ["learn", "one", "two"] {
        assert_eq!(world.receive(1, receiver), Ok(expected.as_bytes().to_vec()));
    }
}

#[test]
fn bind_to_address_in_use_needs_reuse() {
    let mut world = World::new(1);
    let first = bound(&mut world, 0, "0.0.0.0:9");
    let second = world.socket(0, Family::V6, Kind::Datagram);
    let all: SocketAddr = "[::]:9".parse().unwrap();
    assert_eq!(world.nodes[0].bind(second, all), Err(Errno::EADDRINUSE));
    world.nodes[0].set_option(second, SocketOption::new(OptionName::OnlyV6, true)).unwrap();
    assert_eq!(world.nodes[0].bind(second, all), Ok(()));
    assert_eq!(world.nodes[0].bind(second, all), Err(Errno::EINVAL));
    assert_eq!(
        world.nodes[0].set_option(second, SocketOption::new(OptionName::OnlyV6, false)),
        Err(Errno::EINVAL)
    );
    let third = world.socket(0, Family::V4, Kind::Datagram);
    for (address, expected) in [
        ("1.2.3.4:9", Errno::EADDRNOTAVAIL),
        ("10.0.0.1:9", Errno::EADDRINUSE),
        ("127.0.0.1:9", Errno::EADDRINUSE),
    ] {
        assert_eq!(world.nodes[0].bind(third, address.parse().unwrap()), Err(expected));
    }
    for socket in [first, third] {
        world.nodes[0].set_option(socket, SocketOption::new(OptionName::ReuseAddress, true)).unwrap();
    }
    assert_eq!(world.nodes[0].bind(third, "127.0.0.1:9".parse().unwrap()), Ok(()));
    assert_eq!(world.nodes[0].option(third, OptionName::OnlyV6), Err(Errno::ENOPROTOOPT));
}

#[test]
fn fragments_of_any_size_are_reassembled() {
    for mtu in [576, 1280, 9000] {
        let nodes = [0, 1].map(|node| (configuration(node), SimDevice::plain(node).with_mtu(mtu)));
        let mut world = World::with(nodes, Faults { jitter: 1_000_000, seed: 3, ..Faults::default() });
        let receiver = bound(&mut world, 1, "[::]:9");
        for address in [v4(1), v6(1)].into_iter().filter(|address| address.is_ipv4() || mtu >= 1280) {
            let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
            let sender = world.socket(0, family, Kind::Datagram);
            let bytes = pattern(20_000);
            world.nodes[0].send(sender, &bytes, Some(at(address, 9))).unwrap();
            world.run(SECOND);
            assert!(world.receive(1, receiver) == Ok(bytes), "{address} in {mtu}");
        }
    }
}

#[test]
fn stack_without_device_has_the_loopback_only() {
    use crate::testing::System;
    let mut node =
        crate::Stack::<SimDevice, System>::new(None, System::new(1), crate::Configuration::default(), 0);
    assert!(node.is_configured() && !node.status().has_device);
    let socket = node.socket(Family::V4, Kind::Datagram, 1).unwrap();
    let join = SocketOption::group_v4(OptionName::JoinV4, [224, 1, 1, 1].into(), [0; 4].into());
    assert_eq!(node.send(socket, b"x", Some("10.0.0.1:1".parse().unwrap())), Err(Errno::ENETUNREACH));
    assert_eq!(node.send(socket, b"x", Some("224.0.0.1:1".parse().unwrap())), Err(Errno::ENETUNREACH));
    assert_eq!(node.set_option(socket, join), Err(Errno::ENODEV));
    node.bind(socket, "127.0.0.1:0".parse().unwrap()).unwrap();
    let here = node.local(socket).unwrap();
    assert_eq!(node.send(socket, b"x", Some(here)), Ok(1));
    assert_eq!(node.receive(socket, false, &mut |bytes| bytes.len()), Ok((1, Some(here))));
    assert_eq!(node.poll(5), None);
}

#[test]
fn peer_with_port_0_matches_all_ports() {
    let mut world = World::new(3);
    let socket = bound(&mut world, 0, "0.0.0.0:9");
    world.nodes[0].connect(socket, at(v4(1), 0)).unwrap();
    assert_eq!(world.nodes[0].remote(socket), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].send(socket, b"x", None), Err(Errno::EINVAL));
    for (node, expected) in [(1, Ok(b"hello".to_vec())), (2, Err(Errno::EAGAIN))] {
        let sender = bound(&mut world, node, "0.0.0.0:0");
        world.nodes[node].send(sender, b"hello", Some(at(v4(0), 9))).unwrap();
        world.run(SECOND);
        assert_eq!(world.receive(0, socket), expected);
    }
}

#[test]
fn buffer_sizes_have_a_minimum() {
    let mut world = World::new(1);
    let socket = bound(&mut world, 0, "127.0.0.1:9");
    for (name, least) in [(OptionName::SendBuffer, 2304), (OptionName::ReceiveBuffer, 2304)] {
        world.nodes[0].set_option(socket, SocketOption::new(name, 0_u32)).unwrap();
        assert_eq!(world.nodes[0].option(socket, name), Ok(least));
    }
    world.nodes[0].send(socket, b"fits", Some("127.0.0.1:9".parse().unwrap())).unwrap();
    assert_eq!(world.receive(0, socket), Ok(b"fits".to_vec()));
}

#[test]
fn hop_limits_are_validated_and_minus_1_is_the_default() {
    let mut world = World::new(1);
    let socket = bound(&mut world, 0, "[::1]:9");
    let (unicast, multicast) = ((64, Err(Errno::EINVAL)), (1, Ok(())));
    for (name, (default, zero)) in [
        (OptionName::Ttl, unicast),
        (OptionName::HopLimit, unicast),
        (OptionName::MulticastTtl, multicast),
        (OptionName::MulticastHops, multicast),
    ] {
        for (value, expected) in [(0, zero), (256, Err(Errno::EINVAL)), (255, Ok(())), (u32::MAX, Ok(()))] {
            assert_eq!(
                world.nodes[0].set_option(socket, SocketOption::new(name, value)),
                expected,
                "{name:?}"
            );
        }
        assert_eq!(world.nodes[0].option(socket, name), Ok(default));
    }
    world.nodes[0].set_option(socket, SocketOption::new(OptionName::TypeOfService, 0x1ab_u32)).unwrap();
    assert_eq!(world.nodes[0].option(socket, OptionName::TypeOfService), Ok(0xab));
    let error = SocketOption::new(OptionName::Error, 1_u32);
    assert_eq!(world.nodes[0].set_option(socket, error), Err(Errno::ENOPROTOOPT));
    assert_eq!(world.nodes[0].option(socket, OptionName::JoinV6), Err(Errno::ENOPROTOOPT));
}
