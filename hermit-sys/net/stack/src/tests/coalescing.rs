//! Coalescing of writes and of acknowledgements.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, pattern, v4};
use core::net::SocketAddr;
use std::vec::Vec;

/// Payload size in bytes of a full segment with timestamps.
const SEGMENT: usize = 1448;

/// Two hosts with segmentation offload, and a connection between them.
fn pair() -> (World, crate::SocketId, crate::SocketId) {
    let nodes = [0, 1].map(|number| (configuration(number), SimDevice::offloading(number)));
    let mut world = World::with(nodes, Faults::default());
    let listener = world.listen(1, 80, 1);
    let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    warm_up(&mut world, client, server);
    (world, client, server)
}

/// Number of bytes after which both congestion windows are open.
const WARM: usize = if cfg!(miri) { 60_000 } else { 300_000 };

/// Transfers data, to open both congestion windows.
fn warm_up(world: &mut World, client: crate::SocketId, server: crate::SocketId) {
    let (mut sent, mut received) = (0, 0);
    let chunk = pattern(10_000);
    assert!(world.run_until(SECOND, |world| {
        sent += if sent < WARM { world.nodes[0].send(client, &chunk, None).unwrap_or(0) } else { 0 };
        received += world.receive(1, server).map_or(0, |bytes| bytes.len());
        sent >= WARM && received == sent
    }));
    world.run(SECOND);
}

/// Sizes of the frames that the first host sends during an action.
fn frames(world: &mut World, action: impl FnOnce(&mut World)) -> Vec<usize> {
    world.nodes[0].device().unwrap().offloads.clear();
    action(world);
    world.nodes[0].device().unwrap().offloads.iter().map(|&(size, _)| size).collect()
}

#[test]
fn writes_coalesce_while_the_device_is_busy() {
    let (mut world, client, server) = pair();
    let now = world.now;
    let one_by_one = frames(&mut world, |world| {
        for _ in 0..4 {
            world.nodes[0].send(client, &pattern(SEGMENT), None).unwrap();
            world.nodes[0].settle(now);
        }
    });
    assert_eq!(one_by_one, [1514; 4]);
    world.run(SECOND);
    world.nodes[0].device().unwrap().is_sending = true;
    let now = world.now;
    let held = frames(&mut world, |world| {
        for _ in 0..4 {
            world.nodes[0].send(client, &pattern(SEGMENT), None).unwrap();
            world.nodes[0].settle(now);
        }
    });
    assert_eq!(held, []);
    // The device has sent its frames.
    world.nodes[0].device().unwrap().is_sending = false;
    let together = frames(&mut world, |world| {
        world.nodes[0].poll(now);
    });
    assert_eq!(together, [66 + 4 * SEGMENT]);
    let mut arrived = 0;
    assert!(world.run_until(SECOND, |world| {
        arrived += world.receive(1, server).map_or(0, |bytes| bytes.len());
        arrived == 8 * SEGMENT
    }));
}

#[test]
fn busy_device_delays_at_most_32_kib() {
    let (mut world, client, _) = pair();
    world.nodes[0].device().unwrap().is_sending = true;
    let now = world.now;
    let sent = frames(&mut world, |world| {
        for _ in 0..4 {
            assert!(world.nodes[0].device().unwrap().offloads.is_empty());
            world.nodes[0].send(client, &pattern(8 << 10), None).unwrap();
            world.nodes[0].settle(now);
        }
    });
    assert!(sent.iter().sum::<usize>() > if cfg!(miri) { 10_000 } else { 14_000 }, "{sent:?}");
}

#[test]
fn close_sends_coalesced_data() {
    let (mut world, client, server) = pair();
    world.nodes[0].device().unwrap().is_sending = true;
    world.nodes[0].send(client, b"last words", None).unwrap();
    world.nodes[0].close(client).unwrap();
    world.nodes[0].device().unwrap().is_sending = false;
    let mut words = Vec::new();
    assert!(world.run_until(SECOND, |world| {
        let end = world.receive(1, server).map(|bytes| {
            words.extend_from_slice(&bytes);
            bytes.is_empty()
        });
        end == Ok(true)
    }));
    assert_eq!(words, b"last words");
}

#[test]
#[cfg_attr(miri, ignore = "smaller buffers are acknowledged more often")]
fn full_segments_share_an_acknowledgement() {
    let (mut world, client, server) = World::pair();
    // The receive buffer grows with the first data, and its new size is advertised.
    (0..2).for_each(|_| warm_up(&mut world, client, server));
    let acknowledgements = |world: &mut World, count: usize| {
        world.nodes[1].device().unwrap().offloads.clear();
        let start = world.now;
        for _ in 0..count {
            world.nodes[0].send(client, &pattern(SEGMENT), None).unwrap();
            // Each segment is received in its own poll.
            world.run(MILLISECOND / 100);
            let _ = world.receive(1, server);
        }
        assert!(world.now - start < MILLISECOND);
        world.nodes[1].device().unwrap().offloads.len()
    };
    assert_eq!(acknowledgements(&mut world, 16), 2);
    // The ACK of fewer segments is delayed.
    assert_eq!(acknowledgements(&mut world, 5), 0);
    world.run(10 * MILLISECOND);
    assert_eq!(world.nodes[1].device().unwrap().offloads.len(), 1);
}
