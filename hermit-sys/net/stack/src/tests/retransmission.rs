//! Retransmission and zero-window probes.

use crate::testing::peer::{ACK, Peer};
use crate::testing::{SECOND, World, pattern};
use smoltcp::wire::TcpPacket;
use std::vec::Vec;

/// Sends data that the wire loses.
fn lose(world: &mut World, node: usize, socket: crate::SocketId, bytes: &[u8]) {
    world.wire.borrow_mut().is_cut = true;
    assert_eq!(world.nodes[node].send(socket, bytes, None), Ok(bytes.len()));
    world.nodes[node].poll(world.now);
    world.wire.borrow_mut().is_cut = false;
}

#[test]
fn fast_retransmit_waits_for_room_in_the_device() {
    let (mut world, client, server) = World::pair();
    let peer = Peer::of(&mut world, 0, client);
    let bytes = pattern(1000);
    lose(&mut world, 0, client, &bytes);
    world.nodes[0].device().unwrap().room = Some(0);
    for _ in 0..4 {
        peer.send(&mut world, ACK, peer.first, (&[], &[]));
    }
    peer.poll(&mut world);
    world.nodes[0].device().unwrap().room = None;
    assert!(world.run_until(SECOND / 2, |world| world.receive(1, server).as_ref() == Ok(&bytes)));
}

/// Number of segments with data, or window probes, that a node has sent.
fn sent(world: &mut World, node: u8) -> usize {
    let log = world.wire.borrow_mut().log.replace(Vec::new()).unwrap_or_default();
    let frames = log.iter().filter(|frame| frame.get(6..14) == Some(&[2, 0, 0, 0, 1, node, 8, 0]));
    let segments = frames.filter_map(|frame| TcpPacket::new_checked(frame.get(34..)?).ok());
    segments.filter(|segment| !segment.payload().is_empty()).count()
}

#[test]
fn zero_window_probes_follow_lost_acknowledgements() {
    let (mut world, client, server) = World::pair();
    let mut peer = Peer::of(&mut world, 0, client);
    let bytes = pattern(1000);
    lose(&mut world, 0, client, &bytes);
    peer.window = 0;
    peer.send(&mut world, ACK, peer.first, (&[], &[]));
    world.wire.borrow_mut().is_cut = true;
    world.run(SECOND);
    sent(&mut world, 0);
    // Zero-window probes are lost for a while.
    world.run(100 * SECOND);
    assert!(sent(&mut world, 0) >= 3);
    world.wire.borrow_mut().is_cut = false;
    // The retransmission is smaller.
    let mut received = Vec::new();
    assert!(world.run_until(70 * SECOND, |world| {
        received.extend(world.receive(1, server).unwrap_or_default());
        received == bytes
    }));
}

#[test]
fn segments_lost_at_zero_window_are_retransmitted_when_it_opens() {
    let (mut world, client, _) = World::pair();
    let mut peer = Peer::of(&mut world, 0, client);
    let bytes = pattern(2000);
    lose(&mut world, 0, client, &bytes);
    peer.acknowledged += 1460;
    let has_repeated = (0..10).any(|round| {
        peer.window = if round == 0 { 0 } else { 1000 };
        // From then on only probes are answered.
        if sent(&mut world, 0) > 0 || round < 2 {
            world.wire.borrow_mut().is_cut = false;
            peer.send(&mut world, ACK, peer.first, (&[], &[]));
            world.wire.borrow_mut().is_cut = true;
        }
        world.run(SECOND / 2);
        let wire = world.wire.borrow();
        wire.log.iter().flatten().any(|frame| frame.ends_with(&bytes[1460..]))
    });
    assert!(has_repeated);
}
