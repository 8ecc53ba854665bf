//! Listeners: addresses, the backlog, accepted connections.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{SECOND, World, configuration, v4, v6};
use crate::{Configuration, Errno, Family, Kind, OptionName, SocketId, SocketOption};
use core::net::SocketAddr;
use std::vec::Vec;

#[test]
fn accept_queue_is_limited_by_the_backlog() {
    // With more shards, each would have an accept queue.
    let host = |node| (Configuration { shards: 1, ..configuration(node) }, SimDevice::plain(node));
    let mut world = World::with([0, 1].map(host), Faults::default());
    let listener = world.listen(1, 80, 2);
    let clients: Vec<SocketId> = (0..6).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    world.run(SECOND / 2);
    let connected = |world: &World| clients.iter().filter(|&&id| world.readiness(0, id).write).count();
    // As in Linux, one connection more than the backlog.
    let waiting = |world: &World| world.nodes[1].layers.tcp.ready_count(listener.key().slot);
    assert_eq!(waiting(&world), 3);
    assert!(connected(&world) >= 3);
    let mut accepted = 0;
    let all = world.run_until(30 * SECOND, |world| {
        accepted += usize::from(world.nodes[1].accept(listener, 1).is_ok());
        accepted == 6
    });
    assert!(all, "{accepted}");
    assert_eq!(connected(&world), 6);
    assert_eq!(world.nodes[1].accept(listener, 1), Err(Errno::EAGAIN));
}

#[test]
fn accepted_connections_have_the_options_of_their_listener() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 2);
    for option in [
        SocketOption::new(OptionName::NoDelay, true),
        SocketOption::new(OptionName::KeepAlive, true),
        SocketOption::new(OptionName::Ttl, 9_u32),
    ] {
        world.nodes[1].set_option(listener, option).unwrap();
    }
    let (_, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    for (name, value) in [(OptionName::NoDelay, 1), (OptionName::KeepAlive, 1), (OptionName::Ttl, 9)] {
        assert_eq!(world.nodes[1].option(server, name), Ok(value));
    }
}

#[test]
fn bind_to_address_in_use_fails() {
    let mut world = World::new(1);
    let listener = world.listen(0, 80, 1);
    let bind = |world: &mut World, address: &str, reuse: bool| {
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = world.socket(0, family, Kind::Stream);
        world.nodes[0].set_option(socket, SocketOption::new(OptionName::ReuseAddress, reuse)).unwrap();
        world.nodes[0].bind(socket, address).map(|()| socket)
    };
    for address in ["0.0.0.0:80", "127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
        for reuse in [false, true] {
            assert_eq!(bind(&mut world, address, reuse), Err(Errno::EADDRINUSE), "{address}");
        }
    }
    assert_eq!(bind(&mut world, "10.0.0.7:81", false), Err(Errno::EADDRNOTAVAIL));
    let other = bind(&mut world, "127.0.0.1:81", true).unwrap();
    let third = bind(&mut world, "127.0.0.1:81", true).unwrap();
    world.nodes[0].listen(other, 1).unwrap();
    assert_eq!(world.nodes[0].listen(third, 1), Err(Errno::EADDRINUSE));
    world.nodes[0].close(listener).unwrap();
    assert!(bind(&mut world, "0.0.0.0:80", false).is_ok());
    // A fixed and an ephemeral port.
    let any = bind(&mut world, "127.0.0.1:0", false).unwrap();
    assert!((32_768..=60_999).contains(&world.nodes[0].local(any).unwrap().port()));
    let unbound = world.socket(0, Family::V4, Kind::Stream);
    world.nodes[0].listen(unbound, 1).unwrap();
    assert!(world.nodes[0].local(unbound).unwrap().port() >= 32_768);
    let datagram = world.socket(0, Family::V4, Kind::Datagram);
    assert_eq!(world.nodes[0].listen(datagram, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(world.nodes[0].accept(datagram, 1), Err(Errno::EOPNOTSUPP));
}

#[test]
fn listener_for_one_ip_version_ignores_the_other() {
    let mut world = World::new(2);
    for (address, only, heard, not_heard) in [
        ("0.0.0.0:80", false, v4(1), v6(1)),
        ("[::]:81", true, v6(1), v4(1)),
        ("10.0.0.2:82", false, v4(1), v6(1)),
    ] {
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let listener = world.socket(1, family, Kind::Stream);
        if only {
            world.nodes[1].set_option(listener, SocketOption::new(OptionName::OnlyV6, true)).unwrap();
        }
        world.nodes[1].bind(listener, address).unwrap();
        world.nodes[1].listen(listener, 1).unwrap();
        world.connect(0, SocketAddr::new(heard, address.port()), (1, listener));
        let client = world.start(0, SocketAddr::new(not_heard, address.port()));
        assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    }
}

#[test]
fn thousand_connections_leave_no_state() {
    let count = if cfg!(miri) { 20 } else { 1000 };
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 4096);
    let clients: Vec<_> = (0..count).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    let mut servers = Vec::new();
    world.run_until(60 * SECOND, |world| {
        let accept = || world.nodes[1].accept(listener, 1).ok().map(|(id, _)| id);
        servers.extend(core::iter::from_fn(accept));
        servers.len() == count
    });
    assert_eq!(servers.len(), count);
    assert!(clients.iter().all(|&id| world.readiness(0, id).write));
    for &client in &clients {
        world.nodes[0].send(client, b"hello", None).unwrap();
    }
    world.run(5 * SECOND);
    for &server in &servers {
        assert_eq!(world.receive(1, server), Ok(b"hello".to_vec()));
        world.nodes[1].close(server).unwrap();
    }
    world.run(5 * SECOND);
    for &client in &clients {
        assert_eq!(world.receive(0, client), Ok(std::vec![]));
        world.nodes[0].close(client).unwrap();
    }
    world.nodes[1].close(listener).unwrap();
    world.run(5 * SECOND);
    world.assert_nothing_left(0);
}

#[test]
fn sequential_connections_do_not_exhaust_ports() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 4);
    for round in 0..if cfg!(miri) { 10 } else { 300 } {
        let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
        if round % 2 == 0 {
            world.nodes[0].close(client).unwrap();
            world.nodes[1].close(server).unwrap();
        } else {
            world.nodes[1].close(server).unwrap();
            world.run(1000);
            world.nodes[0].close(client).unwrap();
        }
    }
    world.nodes[1].close(listener).unwrap();
    world.run(5 * SECOND);
    world.assert_nothing_left(0);
    world.run(70 * SECOND);
    for node in &mut world.nodes {
        node.poll(world.now);
        assert!((1..=u16::MAX).all(|port| node.layers.tcp_ports.is_unused(port)));
    }
}

#[test]
fn listener_listens_again_after_shutdown() {
    let mut world = World::new(2);
    for (own, stays) in [("10.0.0.2:80", true), ("10.0.0.2:0", false)] {
        let listener = world.socket(1, Family::V4, Kind::Stream);
        world.nodes[1].bind(listener, own.parse().unwrap()).unwrap();
        world.nodes[1].listen(listener, 1).unwrap();
        let address = world.nodes[1].local(listener).unwrap();
        world.nodes[1].shutdown(listener, crate::Shutdown::Read).unwrap();
        assert_eq!(world.nodes[1].accept(listener, 1), Err(Errno::EINVAL));
        assert_eq!(world.nodes[1].local(listener), Ok(own.parse().unwrap()));
        world.nodes[1].listen(listener, 1).unwrap();
        // An ephemeral port changes.
        let again = world.nodes[1].local(listener).unwrap();
        assert_eq!(again == address, stays);
        world.connect(0, again, (1, listener));
        world.nodes[1].close(listener).unwrap();
    }
}
