//! Streams between two sockets of one host.

use crate::testing::{MILLISECOND, SECOND, World, pattern};
use crate::{Errno, OptionName, SocketId, SocketOption};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::vec::Vec;

fn connected() -> (World, [SocketId; 2], SocketId) {
    let mut world = World::new(1);
    let listener = world.listen(0, 80, 8);
    let (client, server) = world.connect(0, "127.0.0.1:80".parse().unwrap(), (0, listener));
    (world, [client, server], listener)
}

/// A step of a program: `true` is the client.
#[derive(Clone, Debug)]
enum Step {
    Send(bool, usize),
    Read(bool, usize),
    Poll(u64),
}

fn step() -> impl Strategy<Value = Step> {
    (0..5_u8, any::<bool>(), 0..40_000_usize).prop_map(|(kind, is_client, size)| match kind {
        0 | 1 => Step::Send(is_client, size),
        2 | 3 => Step::Read(is_client, size),
        _ => Step::Poll(u64::try_from(size).unwrap() * 10_000),
    })
}

/// Reads at most `room` bytes.
fn read(world: &mut World, socket: SocketId, room: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut take = |bytes: &[u8]| {
        let size = bytes.len().min(room - all.len());
        all.extend_from_slice(&bytes[..size]);
        size
    };
    match world.nodes[0].receive(socket, false, &mut take) {
        Ok(_) | Err(Errno::EAGAIN) => all,
        Err(error) => panic!("{error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn local_streams_are_intact(steps in vec(step(), 1..60), buffer in 2304..100_000_u32) {
        let (mut world, ends, listener) = connected();
        for (&end, name) in ends.iter().zip([OptionName::ReceiveBuffer, OptionName::SendBuffer]) {
            let option = SocketOption { name: name as u32, value: buffer, ..SocketOption::default() };
            world.nodes[0].set_option(end, option).unwrap();
        }
        let data = pattern(60 * 40_000);
        // Bytes sent and received, by sender.
        let (mut sent, mut received) = ([0; 2], [0; 2]);
        for step in steps {
            match step {
                Step::Send(is_client, size) => {
                    let end = usize::from(!is_client);
                    let bytes = &data[sent[end]..sent[end] + size];
                    match world.nodes[0].send(ends[end], bytes, None) {
                        Ok(more) => sent[end] += more,
                        Err(error) => prop_assert_eq!(error, Errno::EAGAIN),
                    }
                }
                Step::Read(is_client, size) => {
                    let end = usize::from(!is_client);
                    let bytes = read(&mut world, ends[end], size);
                    let start = received[1 - end];
                    prop_assert!(bytes == data[start..start + bytes.len()]);
                    received[1 - end] += bytes.len();
                }
                Step::Poll(time) => world.run(time),
            }
        }
        let is_complete = world.run_until(60 * SECOND, |world| {
            for end in [0, 1] {
                let bytes = read(world, ends[end], usize::MAX);
                let start = received[1 - end];
                assert!(bytes == data[start..start + bytes.len()]);
                received[1 - end] += bytes.len();
            }
            received == sent
        });
        prop_assert!(is_complete, "{sent:?} {received:?}");
        for end in ends.into_iter().chain([listener]) {
            world.nodes[0].close(end).unwrap();
        }
        world.run(SECOND);
        world.assert_nothing_left(0);
    }
}

#[test]
fn local_data_is_readable_without_a_poll() {
    let (mut world, [client, server], _) = connected();
    world.run(100 * MILLISECOND);
    world.nodes[0].host().woken.clear();
    assert_eq!(world.nodes[0].send(client, b"ab", None), Ok(2));
    assert!(world.readiness(0, server).read && world.nodes[0].host().woken.contains(&5));
    assert_eq!(read(&mut world, server, 1), b"a");
    assert_eq!(world.nodes[0].send(client, b"c", None), Ok(1));
    assert_eq!(read(&mut world, server, 9), b"b");
    world.run(MILLISECOND);
    assert_eq!(read(&mut world, server, 9), b"c");
}

#[test]
fn local_data_behind_a_full_receive_buffer_waits() {
    let (mut world, [client, server], _) = connected();
    let data = pattern(16 << 20);
    let mut sent = 0;
    while let Ok(more) = world.nodes[0].send(client, &data[sent..], None) {
        sent += more;
        assert!(sent < data.len());
        world.run(MILLISECOND);
    }
    let mut received = Vec::new();
    for _ in 0..sent.div_ceil(10_000) {
        received.extend(read(&mut world, server, 10_000));
        world.run(MILLISECOND);
    }
    assert!(received == data[..sent]);
}
