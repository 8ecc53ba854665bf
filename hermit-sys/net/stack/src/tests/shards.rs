//! Connections in several shards, transparent to their sockets.

use crate::socket::slab::table_of;
use crate::testing::{SECOND, SHARDS, World, v4};
use crate::{Errno, Family, Kind, OptionName, SocketId, SocketOption};
use core::net::{Ipv6Addr, SocketAddr};
use std::collections::BTreeSet;
use std::vec::Vec;

/// Number of connections. With a good hash, this number uses all shards.
const CLIENTS: usize = 40;

fn address(port: u16) -> SocketAddr {
    SocketAddr::new(v4(1), port)
}

/// The shard of a socket.
fn shard(world: &World, node: usize, socket: SocketId) -> u32 {
    table_of(world.nodes[node].layers.tcp.slot(socket.key()).unwrap())
}

#[test]
fn listener_accepts_the_connections_of_all_shards() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 64);
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.start(0, address(80))).collect();
    world.run(SECOND);
    assert!(clients.iter().all(|&client| world.readiness(0, client).write));
    let mut servers = Vec::new();
    while world.readiness(1, listener).read {
        servers.push(world.nodes[1].accept(listener, 5).unwrap().0);
    }
    assert_eq!(world.nodes[1].accept(listener, 5), Err(Errno::EAGAIN));
    assert_eq!(servers.len(), CLIENTS);
    let used: BTreeSet<_> = servers.iter().map(|&server| shard(&world, 1, server)).collect();
    assert_eq!(used, (0..SHARDS).collect());
    // The first accepted connections belong to different shards: `accept` checks the shards in turn.
    let first: BTreeSet<_> =
        servers[..SHARDS as usize].iter().map(|&server| shard(&world, 1, server)).collect();
    assert_eq!(first.len(), SHARDS as usize);
    for (&node, &socket) in [(0, &clients), (1, &servers)]
        .iter()
        .flat_map(|(node, sockets)| sockets.iter().map(move |socket| (node, socket)))
    {
        world.nodes[node].close(socket).unwrap();
    }
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn listener_that_is_closed_leaves_no_shard_behind() {
    for is_shut in [false, true] {
        let mut world = World::new(2);
        let listener = world.listen(1, 80, 64);
        let clients: Vec<_> = (0..CLIENTS).map(|_| world.start(0, address(80))).collect();
        world.run(SECOND);
        if is_shut {
            world.nodes[1].shutdown(listener, crate::Shutdown::Both).unwrap();
        } else {
            world.nodes[1].close(listener).unwrap();
        }
        world.run(SECOND);
        assert!(clients.iter().all(|&client| world.readiness(0, client).error));
        let refused = world.start(0, address(80));
        world.run(SECOND);
        assert_eq!(world.nodes[0].connect(refused, address(80)), Err(Errno::ECONNREFUSED));
        // Afterwards the port is free in all shards.
        let again = if is_shut { listener } else { world.socket(1, Family::V6, Kind::Stream) };
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 80);
        assert_eq!(world.nodes[1].bind(again, any), if is_shut { Err(Errno::EINVAL) } else { Ok(()) });
        world.nodes[1].listen(again, 64).unwrap();
        let (client, server) = world.connect(0, address(80), (1, again));
        assert_eq!(world.transfer((0, client), (1, server), b"again", SECOND), b"again");
    }
}

#[test]
fn changes_of_a_listener_count_in_all_shards() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 0);
    world.nodes[1].listen(listener, 64).unwrap();
    world.nodes[1].set_option(listener, SocketOption::new(OptionName::Ttl, 9_u32)).unwrap();
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.start(0, address(80))).collect();
    world.run(SECOND / 2);
    assert!(clients.iter().all(|&client| world.readiness(0, client).write));
    for _ in 0..CLIENTS {
        let (server, _) = world.nodes[1].accept(listener, 5).unwrap();
        assert_eq!(world.nodes[1].option(server, OptionName::Ttl), Ok(9));
    }
}

/// A port that the program chose determines the shard of the connection, independently of the socket's shard.
#[test]
fn socket_with_a_port_keeps_its_identifier_when_it_connects_in_another_shard() {
    let mut world = World::new(2);
    let listeners: Vec<_> = (80..90).map(|port| world.listen(1, port, 8)).collect();
    let mut moves = 0;
    for (port, &listener) in (80..90).zip(&listeners) {
        let client = world.socket(0, Family::V4, Kind::Stream);
        let local = SocketAddr::new(v4(0), 4000 + port);
        world.nodes[0].bind(client, local).unwrap();
        let before = shard(&world, 0, client);
        // Refused. The next attempt may move the socket once more.
        assert_eq!(world.nodes[0].connect(client, address(7)), Err(Errno::EINPROGRESS));
        world.run(SECOND);
        assert_eq!(world.nodes[0].connect(client, address(7)), Err(Errno::ECONNREFUSED));
        assert_eq!(world.nodes[0].connect(client, address(port)), Err(Errno::EINPROGRESS));
        let mut server = None;
        world.run_until(SECOND, |world| {
            server = world.nodes[1].accept(listener, 5).ok();
            server.is_some()
        });
        let (server, from) = server.unwrap();
        assert_eq!((from.port(), world.nodes[0].local(client)), (local.port(), Ok(local)));
        moves += u32::from(shard(&world, 0, client) != before);
        assert_eq!(world.transfer((0, client), (1, server), b"moved", SECOND), b"moved");
        // The port is still the socket's.
        let other = world.socket(0, Family::V4, Kind::Stream);
        assert_eq!(world.nodes[0].bind(other, local), Err(Errno::EADDRINUSE));
        for (node, socket) in [(0, other), (1, server), (0, client)] {
            world.nodes[node].close(socket).unwrap();
        }
        assert_eq!(world.nodes[0].close(client), Err(Errno::EBADF));
        world.run(SECOND);
    }
    assert!(moves > 0);
    world.assert_nothing_left(listeners.len());
}

#[test]
fn connections_within_a_host_are_in_one_shard() {
    let mut world = World::new(1);
    let listener = world.listen(0, 80, 64);
    for _ in 0..CLIENTS {
        let (client, server) = world.connect(0, SocketAddr::new(v4(0), 80), (0, listener));
        assert_eq!(shard(&world, 0, client), shard(&world, 0, server));
        assert_eq!(world.transfer((0, client), (0, server), b"local", SECOND), b"local");
    }
}
