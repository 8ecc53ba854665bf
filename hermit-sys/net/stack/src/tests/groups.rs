//! Multicast and broadcast datagrams.

use super::udp::{at, bound};
use crate::testing::{SECOND, World, v4};
use crate::{Errno, OptionName, SocketOption};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::vec;
use std::vec::Vec;

fn join_v4(group: Ipv4Addr, interface: &str) -> SocketOption {
    SocketOption::group_v4(OptionName::JoinV4, group, interface.parse().unwrap())
}

fn leave_v4(group: Ipv4Addr, interface: &str) -> SocketOption {
    SocketOption::group_v4(OptionName::LeaveV4, group, interface.parse().unwrap())
}

#[test]
fn broadcast_needs_so_broadcast() {
    let mut world = World::new(3);
    let sender = bound(&mut world, 0, "0.0.0.0:0");
    let receivers = [1, 2].map(|node| bound(&mut world, node, "0.0.0.0:9"));
    for all in ["255.255.255.255:9", "10.0.0.255:9"] {
        let all: SocketAddr = all.parse().unwrap();
        world.nodes[0].set_option(sender, SocketOption::new(OptionName::Broadcast, false)).unwrap();
        assert_eq!(world.nodes[0].send(sender, b"all", Some(all)), Err(Errno::EACCES));
        world.nodes[0].set_option(sender, SocketOption::new(OptionName::Broadcast, true)).unwrap();
        world.nodes[0].send(sender, b"all", Some(all)).unwrap();
        world.run(SECOND);
        for (node, receiver) in [(1, receivers[0]), (2, receivers[1])] {
            assert_eq!(world.receive(node, receiver), Ok(b"all".to_vec()));
        }
    }
}

#[test]
fn multicast_groups_are_joined_and_left() {
    for group in ["224.1.2.3", "ff12::1234"] {
        let group: IpAddr = group.parse().unwrap();
        let (join, leave) = match group {
            IpAddr::V4(group) => (join_v4(group, "0.0.0.0"), leave_v4(group, "10.0.0.2")),
            IpAddr::V6(group) => (
                SocketOption::group_v6(OptionName::JoinV6, group, 0),
                SocketOption::group_v6(OptionName::LeaveV6, group, 2),
            ),
        };
        let mut world = World::new(2);
        let member = bound(&mut world, 1, "[::]:9");
        let sender = bound(&mut world, 0, if group.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" });
        let expect = |world: &mut World, expected: Result<Vec<u8>, Errno>| {
            world.nodes[0].send(sender, b"group", Some(at(group, 9))).unwrap();
            world.run(SECOND);
            assert_eq!(world.receive(1, member), expected, "{group}");
        };
        expect(&mut world, Err(Errno::EAGAIN));
        assert_eq!(world.nodes[1].set_option(member, leave), Err(Errno::EADDRNOTAVAIL));
        world.nodes[1].set_option(member, join).unwrap();
        assert_eq!(world.nodes[1].set_option(member, join), Err(Errno::EADDRINUSE));
        world.wire.borrow_mut().log = Some(vec![]);
        world.run(SECOND);
        let reports = world.wire.borrow_mut().log.take().unwrap();
        assert!(!reports.is_empty(), "a report for {group} is sent");
        expect(&mut world, Ok(b"group".to_vec()));
        world.nodes[1].set_option(member, leave).unwrap();
        expect(&mut world, Err(Errno::EAGAIN));
    }
}

#[test]
fn multicast_loop_delivers_to_the_sender() {
    let mut world = World::new(2);
    let group: SocketAddr = "224.1.2.3:9".parse().unwrap();
    let socket = bound(&mut world, 0, "0.0.0.0:9");
    world.nodes[0].set_option(socket, join_v4([224, 1, 2, 3].into(), "0.0.0.0")).unwrap();
    world.nodes[0].send(socket, b"me", Some(group)).unwrap();
    assert_eq!(world.receive_from(0, socket), Ok((b"me".to_vec(), at(v4(0), 9))));
    world.nodes[0].set_option(socket, SocketOption::new(OptionName::MulticastLoopV4, false)).unwrap();
    world.nodes[0].send(socket, b"me", Some(group)).unwrap();
    assert_eq!(world.receive_from(0, socket), Err(Errno::EAGAIN));
    world.nodes[0].set_option(socket, SocketOption::new(OptionName::MulticastTtl, 7_u32)).unwrap();
    world.wire.borrow_mut().log = Some(vec![]);
    world.nodes[0].send(socket, b"me", Some(group)).unwrap();
    let log = world.wire.borrow_mut().log.take().unwrap();
    assert_eq!(log.iter().map(|frame| frame[22]).collect::<Vec<_>>(), [7]);
}

#[test]
fn multicast_on_the_loopback_stays_there() {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let to = Some(at(group.into(), 9));
    let mut world = World::new(2);
    let [member, outside] = [0, 1].map(|node| bound(&mut world, node, "0.0.0.0:9"));
    world.nodes[1].set_option(outside, join_v4(group, "0.0.0.0")).unwrap();
    let here = bound(&mut world, 0, "127.0.0.1:0");
    let there = bound(&mut world, 0, "0.0.0.0:0");
    world.nodes[0].send(here, b"unheard", to).unwrap();
    assert_eq!(world.receive(0, member), Err(Errno::EAGAIN));
    world.nodes[0].set_option(member, join_v4(group, "127.0.0.1")).unwrap();
    world.nodes[0].set_option(here, SocketOption::new(OptionName::MulticastLoopV4, false)).unwrap();
    world.nodes[0].send(here, b"here", to).unwrap();
    world.nodes[0].send(there, b"there", to).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, member), Ok(b"here".to_vec()));
    assert_eq!(world.receive(0, member), Err(Errno::EAGAIN));
    assert_eq!(world.receive(1, outside), Ok(b"there".to_vec()));
    assert_eq!(world.receive(1, outside), Err(Errno::EAGAIN));
    // A membership is on one interface.
    assert_eq!(world.nodes[0].set_option(member, leave_v4(group, "10.0.0.1")), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(world.nodes[0].set_option(member, join_v4(group, "10.0.0.9")), Err(Errno::ENODEV));
    world.nodes[0].set_option(member, leave_v4(group, "0.0.0.0")).unwrap();
    world.nodes[0].send(here, b"unheard", to).unwrap();
    assert_eq!(world.receive(0, member), Err(Errno::EAGAIN));
    world.nodes[1].close(outside).unwrap();
    assert!(world.nodes.iter().all(|node| node.layers.ip.groups.is_empty()));
}

#[test]
fn join_of_invalid_group_fails() {
    let mut world = World::new(1);
    let v6 = bound(&mut world, 0, "[::1]:0");
    let group = "ff01::1".parse().unwrap();
    for (option, expected) in [
        (SocketOption::group_v6(OptionName::JoinV6, "::1".parse().unwrap(), 1), Err(Errno::EINVAL)),
        (SocketOption::group_v6(OptionName::LeaveV6, "::1".parse().unwrap(), 1), Err(Errno::EINVAL)),
        (SocketOption::group_v6(OptionName::JoinV6, group, 77), Err(Errno::ENODEV)),
        (SocketOption::group_v6(OptionName::JoinV6, group, 1), Ok(())),
        (SocketOption::group_v6(OptionName::LeaveV6, group, 2), Err(Errno::EADDRNOTAVAIL)),
        (SocketOption::group_v6(OptionName::LeaveV6, group, 1), Ok(())),
        (join_v4([10, 1, 2, 3].into(), "127.0.0.1"), Err(Errno::EINVAL)),
        (leave_v4([10, 1, 2, 3].into(), "127.0.0.1"), Err(Errno::EADDRNOTAVAIL)),
        // An IPv6 socket can join an IPv4 group.
        (join_v4([239, 1, 2, 3].into(), "127.0.0.1"), Ok(())),
    ] {
        assert_eq!(world.nodes[0].set_option(v6, option), expected, "{option:?}");
    }
}

#[test]
fn broadcast_on_the_loopback_needs_no_device() {
    let mut world = World::new(2);
    let receivers = [0, 1].map(|node| bound(&mut world, node, "0.0.0.0:9"));
    for (own, to) in [("127.0.0.1:0", "127.255.255.255:9"), ("127.0.0.1:0", "255.255.255.255:9")] {
        let (sender, to) = (bound(&mut world, 0, own), to.parse().unwrap());
        assert_eq!(world.nodes[0].send(sender, b"all", Some(to)), Err(Errno::EACCES));
        assert_eq!(world.nodes[0].connect(sender, to), Err(Errno::EACCES));
        world.nodes[0].set_option(sender, SocketOption::new(OptionName::Broadcast, true)).unwrap();
        world.nodes[0].send(sender, b"all", Some(to)).unwrap();
        assert_eq!(world.receive(0, receivers[0]), Ok(b"all".to_vec()));
        assert_eq!(world.nodes[0].connect(sender, to), Ok(()));
        // Broadcasts of the loopback do not leave the host, and are not received from the device.
        assert_eq!(world.nodes[0].send(sender, b"x", Some(at(v4(1), 9))), Err(Errno::EINVAL));
        world.run(SECOND);
        assert_eq!(world.receive(1, receivers[1]), Err(Errno::EAGAIN));
        world.nodes[0].close(sender).unwrap();
    }
}
