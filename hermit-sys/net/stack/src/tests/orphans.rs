//! Connections whose sockets are closed. Peers decide how long the data of such connections stays, so its
//! amount is bounded.

use core::net::SocketAddr;
use std::vec::Vec;

use crate::socket::buffers::ORPHANED_PART;
use crate::testing::peer::{ACK, Peer};
use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, pattern, v4};
use crate::{Configuration, Errno, OptionName, SocketId, SocketOption};

/// Memory for data of the host under test.
const MEMORY: usize = 256 << 10;

/// Bytes that each connection has to deliver.
const SIZE: usize = 20_000;

/// A host with little memory, and connections to it whose peers have shut their windows.
fn shut_windows(connections: usize) -> (World, Vec<(SocketId, SocketId)>) {
    let small = Configuration { buffers: MEMORY, ..configuration(1) };
    let nodes = [(configuration(0), SimDevice::plain(0)), (small, SimDevice::plain(1))];
    let mut world = World::with(nodes, Faults::default());
    let listener = world.listen(1, 80, 8);
    world.nodes[1].set_option(listener, SocketOption::new(OptionName::SendBuffer, 32_u32 << 10)).unwrap();
    let ends = (0..connections).map(|_| world.connect(0, SocketAddr::new(v4(1), 80), (1, listener)));
    let ends: Vec<_> = ends.collect();
    world.nodes[1].close(listener).unwrap();
    for &(_, server) in &ends {
        let peer = Peer { window: 0, ..Peer::of(&mut world, 1, server) };
        peer.send(&mut world, ACK, peer.first, (&[], &[]));
    }
    world.run(MILLISECOND);
    for &(_, server) in &ends {
        assert_eq!(world.nodes[1].send(server, &pattern(SIZE), None), Ok(SIZE));
    }
    (world, ends)
}

/// Linux's `tcp_max_orphans`: a connection is reset if connections without sockets have too much data to
/// deliver.
#[test]
fn data_of_closed_sockets_is_limited() {
    let (mut world, ends) = shut_windows(9);
    for &(_, server) in &ends {
        world.nodes[1].close(server).unwrap();
    }
    world.nodes[1].poll(world.now);
    let kept = MEMORY / ORPHANED_PART / SIZE;
    assert_eq!(world.nodes[1].layers.tcp.connections().len(), kept);
    world.run(MILLISECOND);
    let is_reset = |world: &mut World, client| world.receive(0, client) == Err(Errno::ECONNRESET);
    let reset = ends.iter().filter(|&&(client, _)| is_reset(&mut world, client)).count();
    assert_eq!(reset, ends.len() - kept);
}

/// Data of closed sockets is no longer counted after it has been delivered or given up.
#[test]
fn delivered_data_of_closed_sockets_does_not_count() {
    let (mut world, ends) = shut_windows(9);
    for &(client, server) in &ends {
        world.nodes[1].close(server).unwrap();
        let mut received = 0;
        // The host knows only a shut window. The client answers the window probe with the new window.
        assert!(world.run_until(10 * SECOND, |world| {
            received += world.receive(0, client).map_or(0, |bytes| bytes.len());
            received == SIZE
        }));
        world.nodes[0].close(client).unwrap();
        world.run(SECOND);
    }
    world.run(70 * SECOND);
    world.assert_nothing_left(0);
}

/// At shutdown, all data is delivered.
#[test]
fn end_of_the_machine_resets_no_connection() {
    let (mut world, ends) = shut_windows(9);
    world.nodes[1].close_all();
    world.nodes[1].poll(world.now);
    assert_eq!(world.nodes[1].layers.tcp.connections().len(), ends.len());
}
