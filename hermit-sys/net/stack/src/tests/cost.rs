//! That the work does not depend on how many sockets there are.

use crate::testing::wire::{Faults, Port};
use crate::testing::{SECOND, World, configuration, v4};
use crate::{Configuration, Family, Kind};
use core::net::SocketAddr;

/// How many sockets and packets are looked at for some rounds of question and answer beside idle sockets.
fn visits(idle: usize) -> u64 {
    let large = |node| (Configuration { buffers: 1 << 30, ..configuration(node) }, Port::plain(node));
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
    let before: u64 = world.nodes.iter().map(|node| node.core.visits).sum();
    for round in 0..50_u8 {
        world.nodes[0].send(client, &[round], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(1, server).is_ok()));
        world.nodes[1].send(server, &[round], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(0, client).is_ok()));
    }
    world.nodes.iter().map(|node| node.core.visits).sum::<u64>() - before
}

#[test]
fn idle_sockets_cost_nothing() {
    let (few, many) = (visits(10), visits(1000));
    assert!(few > 100 && many <= few + few / 10, "{few} with few, {many} with many");
}
