//! Work per poll does not depend on the number of sockets.

use crate::testing::peer::{ACK, OPTIONS, Peer, SYN};
use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, pattern, v4};
use crate::{Configuration, Family, Kind, OptionName, SocketOption};
use core::net::SocketAddr;

/// The flag RST.
const RST: u8 = 4;

/// Number of request and response rounds.
const ROUNDS: u8 = if cfg!(miri) { 3 } else { 50 };

/// Returns the number of processed sockets and packets for a few rounds of request and response, while there
/// are `idle` idle sockets.
fn visits(idle: usize) -> u64 {
    let large = |node| (Configuration { buffers: 1 << 30, ..configuration(node) }, SimDevice::plain(node));
    let mut world = World::with([large(0), large(1)], Faults::default());
    let listener = world.listen(1, 80, 4096);
    let mut accepted = 0;
    for _ in 0..idle {
        world.start(0, SocketAddr::new(v4(1), 80));
        world.run_until(SECOND, |world| {
            accepted += usize::from(world.nodes[1].accept(listener, 1).is_ok());
            false
        });
        let datagrams = world.socket(1, Family::V4, Kind::Datagram);
        world.nodes[1].bind(datagrams, "0.0.0.0:0".parse().unwrap()).unwrap();
    }
    assert_eq!(accepted, idle);
    let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    world.run(SECOND);
    let before: u64 = world.nodes.iter().map(|node| node.layers.visits()).sum();
    for round in 0..ROUNDS {
        world.nodes[0].send(client, &[round], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(1, server).is_ok()));
        world.nodes[1].send(server, &[round], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(0, client).is_ok()));
    }
    world.nodes.iter().map(|node| node.layers.visits()).sum::<u64>() - before
}

#[test]
fn idle_sockets_cause_no_work() {
    let (few, many) = if cfg!(miri) { (visits(2), visits(8)) } else { (visits(10), visits(1000)) };
    assert!(few > 2 * u64::from(ROUNDS) && many <= few + few / 10, "{few} with few, {many} with many");
}

#[test]
fn delivered_sockets_are_checked_once_at_shutdown() {
    const CONNECTIONS: u64 = if cfg!(miri) { 10 } else { 100 };
    const QUESTIONS: u64 = 50;
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    for _ in 1..CONNECTIONS {
        world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    }
    world.nodes[1].set_option(listener, SocketOption::new(OptionName::ReceiveBuffer, 4096_u32)).unwrap();
    let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    // The data of the last one exceeds its peer's window.
    let sent = world.nodes[0].send(client, &pattern(100_000), None).unwrap();
    world.nodes[0].close_all();
    world.run(SECOND);
    let before = world.nodes[0].layers.visits();
    for _ in 0..QUESTIONS {
        assert!(!world.nodes[0].is_delivered());
    }
    let visits = world.nodes[0].layers.visits() - before;
    assert!((QUESTIONS..QUESTIONS + CONNECTIONS).contains(&visits), "{visits}");
    let mut received = 0;
    assert!(world.run_until(5 * SECOND, |world| {
        received += world.receive(1, server).map_or(0, |bytes| bytes.len());
        world.nodes[0].is_delivered()
    }));
    received += world.receive(1, server).map_or(0, |bytes| bytes.len());
    assert_eq!(received, sent);
}

/// Number of polls in a second while the transmit queue is full.
fn rounds_of_a_second(world: &mut World) -> usize {
    let mut rounds = 0;
    world.run_until(SECOND, |_| {
        rounds += 1;
        false
    });
    rounds
}

#[test]
fn full_device_is_polled_rarely() {
    // A stream and an answer wait for room.
    let (mut world, client, server) = World::pair();
    world.nodes[0].device().unwrap().room = Some(0);
    world.nodes[0].send(client, b"stuck", None).unwrap();
    let rounds = rounds_of_a_second(&mut world);
    assert!(rounds < 200, "{rounds}");
    // After the device has taken a frame, it is soon polled again.
    for _ in 0..3 {
        world.nodes[0].device().unwrap().room = Some(1);
        world.nodes[0].send(client, &[7; 4000], None).unwrap();
        assert!(world.run_until(20 * MILLISECOND, |world| world.nodes[0].device().unwrap().room == Some(0)));
        world.nodes[0].device().unwrap().room = Some(1);
        assert!(world.run_until(MILLISECOND / 5, |world| world.nodes[0].device().unwrap().room == Some(0)));
        world.run(SECOND / 10);
    }
    world.nodes[0].device().unwrap().room = None;
    let mut received = 0;
    let is_whole = world.run_until(2 * SECOND, |world| {
        received += world.receive(1, server).map_or(0, |bytes| bytes.len());
        received == 5 + 3 * 4000
    });
    assert!(is_whole, "{received}");
}

#[test]
#[cfg_attr(miri, ignore = "3,000 segments take minutes")]
fn stuck_device_makes_no_list_grow() {
    let (mut world, _client, server) = World::pair();
    let mut peer = Peer::of(&mut world, 1, server);
    world.nodes[1].device().unwrap().room = Some(0);
    let stream = pattern(1000);
    for index in 0..1000 {
        peer.send_piece(&mut world, ACK, &stream, index..index + 1);
        peer.poll(&mut world);
    }
    assert_eq!(world.nodes[1].layers.tcp.blocked(), 1);
    // Connections that end before they are answered.
    let ends = peer.ends;
    for port in 1..1000 {
        peer.ends.0.set_port(port);
        peer.send(&mut world, SYN, peer.first, (&OPTIONS, &[]));
        peer.poll(&mut world);
        peer.send(&mut world, RST, peer.first + 1, (&[], &[]));
        peer.poll(&mut world);
    }
    assert_eq!(world.nodes[1].layers.tcp.half_open(), []);
    let blocked = world.nodes[1].layers.tcp.blocked();
    assert!(blocked < 30, "{blocked}");
    // The first connection continues.
    world.nodes[1].device().unwrap().room = None;
    peer.ends = ends;
    world.wire.borrow_mut().log = Some(std::vec![]);
    peer.poll(&mut world);
    world.run(MILLISECOND * 20);
    assert!(!world.wire.borrow_mut().log.take().unwrap().is_empty());
    assert_eq!(world.nodes[1].layers.tcp.blocked(), 0);
}

#[test]
fn device_that_refuses_frames_loses_them() {
    let mut world = World::with([(Configuration::default(), SimDevice::plain(0))], Faults::default());
    world.nodes[0].device().unwrap().is_broken = true;
    // smoltcp sends router solicitations, DHCP and MLD; the stack solicits neighbors.
    world.run(20 * SECOND);
    assert_eq!(world.nodes[0].device().unwrap().offloads, []);
    let (mut world, client, server) = World::pair();
    world.nodes[0].device().unwrap().is_broken = true;
    world.nodes[0].send(client, b"lost", None).unwrap();
    world.run(SECOND / 10);
    world.nodes[0].device().unwrap().is_broken = false;
    assert!(world.run_until(5 * SECOND, |world| world.receive(1, server) == Ok(b"lost".to_vec())));
}
