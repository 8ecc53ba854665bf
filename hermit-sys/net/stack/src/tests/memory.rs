//! Connections that share the memory for data, when all of it is in use.

use core::net::SocketAddr;
use std::vec::Vec;

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{SECOND, World, configuration, pattern, v4};
use crate::{Configuration, Errno, OptionName, SocketId, SocketOption};

/// Memory for data of the host under test.
const MEMORY: usize = 128 << 10;

/// Returns two hosts, the second one with little memory, and connections from the first one to it.
fn small_host(connections: usize) -> (World, Vec<(SocketId, SocketId)>) {
    let small = Configuration { buffers: MEMORY, ..configuration(1) };
    let nodes = [(configuration(0), SimDevice::plain(0)), (small, SimDevice::plain(1))];
    let mut world = World::with(nodes, Faults::default());
    let listener = world.listen(1, 80, 8);
    let size = u32::try_from(MEMORY).unwrap();
    world.nodes[1].set_option(listener, SocketOption::new(OptionName::ReceiveBuffer, size)).unwrap();
    let ends = (0..connections).map(|_| world.connect(0, SocketAddr::new(v4(1), 80), (1, listener)));
    let ends: Vec<_> = ends.collect();
    for &(_, server) in &ends {
        world.nodes[1].set_option(server, SocketOption::new(OptionName::SendBuffer, 2 * size)).unwrap();
    }
    (world, ends)
}

/// Waker key of accepted sockets.
const ACCEPTED: usize = 5;

#[test]
fn writer_waits_for_memory_that_others_use() {
    let (mut world, ends) = small_host(2);
    let [(_, first), (other, second)] = ends[..] else { panic!("two connections") };
    world.wire.borrow_mut().is_cut = true;
    let sent = world.nodes[1].send(first, &pattern(2 * MEMORY), None).unwrap();
    assert!(sent < MEMORY && sent > MEMORY / 2, "{sent}");
    // As in Linux, a non-blocking socket fails with EAGAIN, and is not writable.
    for socket in [first, second, second] {
        assert_eq!(world.nodes[1].send(socket, b"more", None), Err(Errno::EAGAIN));
        assert!(!world.readiness(1, socket).write);
    }
    world.nodes[1].host().woken.clear();
    world.wire.borrow_mut().is_cut = false;
    // The peer of the first connection acknowledges the sent data.
    assert!(world.run_until(10 * SECOND, |world| world.readiness(1, second).write));
    assert!(world.nodes[1].host().woken.contains(&ACCEPTED));
    assert_eq!(world.nodes[1].send(second, b"more", None), Ok(4));
    assert!(world.run_until(SECOND, |world| world.readiness(0, other).read));
    assert_eq!(world.receive(0, other).unwrap(), b"more");
}

/// Reading frees memory, too, without a segment from the peer.
#[test]
fn writer_goes_on_when_data_is_read() {
    let (mut world, ends) = small_host(2);
    let [(client, first), (_, second)] = ends[..] else { panic!("two connections") };
    let sent = world.nodes[0].send(client, &pattern(6000), None).unwrap();
    world.run(SECOND);
    world.wire.borrow_mut().is_cut = true;
    while world.nodes[1].send(second, &pattern(1000), None).is_ok() {}
    world.nodes[1].host().woken.clear();
    assert_eq!(world.receive(1, first).unwrap().len(), sent);
    assert!(world.nodes[1].host().woken.contains(&ACCEPTED));
    assert!(world.readiness(1, second).write);
    assert!(world.nodes[1].send(second, &pattern(1000), None).is_ok());
}

/// A server that first writes all data that it has read from a connection, and only then reads again: all
/// received data, or a piece at a time.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn echoes_on_several_connections_end() {
    let bytes = pattern(300_000);
    for piece in [3000, usize::MAX] {
        let (mut world, ends) = small_host(6);
        let mut queued: Vec<Vec<u8>> = ends.iter().map(|_| Vec::new()).collect();
        let send = |world: &mut World, client, sent| world.nodes[0].send(client, &bytes[sent..], None);
        let mut sent: Vec<_> = ends.iter().map(|&(client, _)| send(&mut world, client, 0).unwrap()).collect();
        let mut received: Vec<_> = ends.iter().map(|_| 0).collect();
        // The memory is full of data before the server begins.
        world.run(10 * SECOND);
        let is_done = world.run_until(600 * SECOND, |world| {
            for (index, &(client, server)) in ends.iter().enumerate() {
                sent[index] += send(world, client, sent[index]).unwrap_or(0);
                let more = world.receive(0, client).unwrap_or_default();
                assert!(bytes[received[index]..].starts_with(&more));
                received[index] += more.len();
                echo(world, server, &mut queued[index], piece);
            }
            received.iter().all(|&received| received == bytes.len())
        });
        assert!(is_done, "{piece}: {received:?} of {sent:?}");
    }
}

/// Reads at most `piece` bytes from a socket of the second host if nothing is queued, and writes the queued
/// bytes.
fn echo(world: &mut World, socket: SocketId, queued: &mut Vec<u8>, piece: usize) {
    if queued.is_empty() {
        let mut take = |bytes: &[u8]| {
            let count = bytes.len().min(piece - queued.len());
            queued.extend_from_slice(&bytes[..count]);
            count
        };
        // Without received data, there is nothing to write: the error is ignored.
        let _ = world.nodes[1].receive(socket, false, &mut take);
        // Data received in the meantime takes the memory.
        world.nodes[1].poll(world.now);
    }
    match world.nodes[1].send(socket, queued, None) {
        Ok(count) => _ = queued.drain(..count),
        Err(error) => assert_eq!(error, Errno::EAGAIN),
    }
}
