//! Loss, duplication, corruption and reordering; hostile frames.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, header, mac, pattern, v4, v6};
use crate::{Family, Kind, ReceivedInfo};
use core::net::SocketAddr;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any};
use proptest::{prop_assert, prop_oneof, proptest};
use std::vec::Vec;

fn faults() -> impl Strategy<Value = Faults> {
    let jitter = prop_oneof![Just(0), Just(100_000), Just(3 * MILLISECOND)];
    (any::<u64>(), 0..25_u8, 0..25_u8, 0..15_u8, jitter, 0..2_u64).prop_map(
        |(seed, lost, doubled, corrupted, jitter, delay)| Faults {
            seed,
            lost,
            doubled,
            corrupted,
            jitter,
            delay: delay * MILLISECOND,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 24 }, ..ProptestConfig::default() })]

    #[test]
    fn stream_is_intact_on_a_faulty_wire(
        faults in faults(),
        size in 1..if cfg!(miri) { 5_000 } else { 200_000_usize },
        is_v4: bool,
        offloads: bool,
    ) {
        let port = |number| if offloads { SimDevice::offloading(number) } else { SimDevice::plain(number) };
        let mut world = World::with([0, 1].map(|number| (configuration(number), port(number))), faults);
        let listener = world.listen(1, 80, 4);
        let address = if is_v4 { v4(1) } else { v6(1) };
        // Neighbor resolution may fail.
        let to = SocketAddr::new(address, 80);
        let connected = (0..9).find_map(|_| world.try_connect(0, to, (1, listener)));
        let (client, server) = connected.unwrap();
        let bytes = pattern(size);
        prop_assert!(world.transfer((0, client), (1, server), &bytes, 900 * SECOND) == bytes);
        prop_assert!(world.transfer((1, server), (0, client), &bytes, 900 * SECOND) == bytes);
        world.nodes[0].close(client).unwrap();
        world.nodes[1].close(server).unwrap();
        world.nodes[1].close(listener).unwrap();
        world.run(200 * SECOND);
        world.assert_nothing_left(0);
    }

    #[test]
    fn datagrams_are_whole_or_lost_on_a_faulty_wire(faults in faults(), sizes in vec(0..9000_usize, 1..if cfg!(miri) { 4 } else { 20 })) {
        // A 16-bit checksum does not detect two errors that cancel each other out.
        let faults = Faults { corrupted: 0, ..faults };
        let mut world = World::with([0, 1].map(|number| (configuration(number), SimDevice::plain(number))), faults);
        let receiver = world.socket(1, Family::V6, Kind::Datagram);
        world.nodes[1].bind(receiver, "[::]:9".parse().unwrap()).unwrap();
        let sender = world.socket(0, Family::V6, Kind::Datagram);
        for (number, size) in sizes.into_iter().enumerate() {
            let mut bytes = pattern(size);
            bytes.push(u8::try_from(number).unwrap());
            world.nodes[0].send(sender, &bytes, Some(SocketAddr::new(v6(1), 9))).unwrap();
            world.run(MILLISECOND);
            while let Ok(received) = world.receive(1, receiver) {
                let size = received.len() - 1;
                prop_assert!(received[..size] == pattern(size));
            }
        }
    }
}

/// Frames that are more or less valid.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop_oneof![Just([8, 0]), Just([0x86, 0xdd]), Just([8, 6]), any::<[u8; 2]>()];
    let transport =
        prop_oneof![Just(6_u8), Just(17), Just(1), Just(58), Just(2), Just(44), Just(0), any::<u8>()];
    let flags = prop_oneof![Just(2_u8), Just(16), Just(18), Just(17), Just(4), Just(20), any::<u8>()];
    let ports = prop_oneof![Just([0, 80]), Just([0, 53]), Just([0, 68]), any::<[u8; 2]>()];
    (protocol, transport, flags, ports, vec(any::<u8>(), 0..200), any::<[u8; 4]>()).prop_map(
        |(protocol, transport, flags, ports, mut state, choice)| {
            let mut frame = std::vec![2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 7, 7];
            if choice[0] % 4 == 0 {
                frame[0..6].copy_from_slice(&[0xff; 6]);
            }
            frame.extend(protocol);
            let (header, addresses) = if protocol == [8, 0] { (20, 12) } else { (40, 8) };
            state.resize(state.len().max(header + 20), 0);
            if protocol == [8, 0] {
                state[0] = 0x45;
                let size = u16::try_from(state.len()).unwrap();
                state[2..4].copy_from_slice(&size.to_be_bytes());
                if choice[1] % 4 > 0 {
                    state[6..8].fill(0);
                }
                state[9] = transport;
                state[addresses..addresses + 8].copy_from_slice(&[10, 0, 0, 2 + choice[2] % 3, 10, 0, 0, 1]);
                let mut packet = smoltcp::wire::Ipv4Packet::new_unchecked(&mut state[..]);
                packet.fill_checksum();
            } else if protocol == [0x86, 0xdd] {
                state[0] = 0x60;
                let size = u16::try_from(state.len() - 40).unwrap();
                state[4..6].copy_from_slice(&size.to_be_bytes());
                state[6] = transport;
                state[7] = if choice[1] % 2 == 0 { 255 } else { 64 };
                let source: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 + choice[2] % 3];
                let mut destination = source;
                destination[15] = 1;
                state[8..24].copy_from_slice(&source);
                state[24..40].copy_from_slice(&destination);
            }
            state[header + 2..header + 4].copy_from_slice(&ports);
            if transport == 6 {
                state[header + 12] = 0x50;
                state[header + 13] = flags;
            }
            frame.extend(state);
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_frames_do_not_harm_the_stack(frames in vec((frame(), 0..30_u64), 0..if cfg!(miri) { 15 } else { 100 })) {
        let mut world = World::new(2);
        let listener = world.listen(0, 80, 4);
        let datagrams = world.socket(0, Family::V6, Kind::Datagram);
        world.nodes[0].bind(datagrams, "[::]:53".parse().unwrap()).unwrap();
        let (client, _) = world.connect(1, SocketAddr::new(v4(0), 80), (0, listener));
        for (frame, wait) in frames {
            let info = ReceivedInfo { checksum_good: true };
            world.wire.borrow_mut().send(1, &frame, info);
            world.run(wait * 100 * MILLISECOND);
            while world.receive(0, datagrams).is_ok() {}
        }
        prop_assert!(world.nodes[0].layers.buffers.used() <= configuration(0).buffers);
        world.nodes[1].close_now(client).unwrap();
        world.nodes[0].close(listener).unwrap();
        world.run(100 * SECOND);
        // Connections that complete in the meantime stay in the accept queue.
        prop_assert!(world.nodes[0].layers.tcp.half_open().is_empty());
    }

    #[test]
    fn hostile_segments_do_not_harm_a_connection(
        segments in vec((any::<u8>(), any::<i32>(), any::<i32>(), any::<u16>(), 0..3000_usize, any::<bool>()), 1..if cfg!(miri) { 10 } else { 60 }),
    ) {
        let mut world = World::new(2);
        let listener = world.listen(0, 80, 4);
        let (client, server) = world.connect(1, SocketAddr::new(v4(0), 80), (0, listener));
        let port = world.nodes[1].local(client).unwrap().port();
        let ours = world.nodes[0].layers.tcp.slot(server.key()).unwrap();
        for (flags, sequence, acknowledged, window, size, is_near) in segments {
            let near = world.nodes[0].layers.tcp.connection(ours).map(|connection| connection.numbers());
            let (mut sequence, mut acknowledged) = (sequence, acknowledged);
            if let Some((next, expected)) = near.filter(|_| is_near) {
                sequence = expected.0.wrapping_add(sequence % 5000);
                acknowledged = next.0.wrapping_add(acknowledged % 3);
            }
            send_segment(&mut world, port, (flags, sequence, acknowledged, window), size);
            let _ = world.nodes[0].send(server, &[1; 100], None);
            world.run(20 * MILLISECOND);
        }
        let _ = world.receive(0, server);
        world.nodes[0].close(server).unwrap();
        world.nodes[1].close(client).unwrap();
        world.nodes[0].close(listener).unwrap();
        world.run(300 * SECOND);
        world.assert_nothing_left(0);
    }
}

fn send_segment(
    world: &mut World,
    port: u16,
    (flags, sequence, acknowledged, window): (u8, i32, i32, u16),
    size: usize,
) {
    let size = size.min(1400);
    let packet = header(v4(1), v4(0), smoltcp::wire::IpProtocol::Tcp, 20 + size);
    world.inject(1, mac(0), packet, |segment| {
        segment.fill(0);
        segment[0..2].copy_from_slice(&port.to_be_bytes());
        segment[2..4].copy_from_slice(&80_u16.to_be_bytes());
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
        segment[12] = 0x50;
        segment[13] = flags;
        segment[14..16].copy_from_slice(&window.to_be_bytes());
        let (from, to) = (v4(1).into(), v4(0).into());
        smoltcp::wire::TcpPacket::new_unchecked(segment).fill_checksum(&from, &to);
    });
}
