//! Data transfer on streams.
//!
//! The tests cover the paths of data (device, offloads, loopback), the size of packets, Nagle's algorithm,
//! flow control with slow readers, and the sizes of buffers.

use crate::socket::buffers::LARGEST;
use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, configuration, header, mac, pattern, v4, v6};
use crate::wire::packet::{Frame, Packet};
use crate::wire::tcp::{ChecksumBy, TCP, fill_checksum, write_header};
use crate::{Errno, OptionName, SocketOption};
use core::net::SocketAddr;
use hermit_tcp::{Flags, Header, Seq};
use smoltcp::wire::{IpProtocol, TcpSeqNumber};
use std::vec::Vec;

#[test]
fn stream_arrives_in_order_on_all_paths() {
    let bytes = pattern(if cfg!(miri) { 20_000 } else { 3_000_000 });
    for (node, address) in
        [(0, v4(1)), (0, v6(1)), (1, "127.0.0.1".parse().unwrap()), (1, "::1".parse().unwrap())]
    {
        let mut world = World::new(2);
        let listener = world.listen(1, 80, 1);
        let (client, server) = world.connect(node, SocketAddr::new(address, 80), (1, listener));
        assert!(world.transfer((node, client), (1, server), &bytes, 20 * SECOND) == bytes, "{address}");
        assert!(world.transfer((1, server), (node, client), &bytes, 20 * SECOND) == bytes, "{address}");
        assert!(world.now < 2 * SECOND, "{} for {address}", world.now);
    }
}

#[test]
fn tcp_uses_segmentation_and_checksum_offload() {
    let (bytes, large) = if cfg!(miri) { (pattern(10_000), 3_000) } else { (pattern(2_000_000), 30_000) };
    for (mtu, small) in [(1500, false), (1500, true), (9000, true), (1280, true), (576, true)] {
        let port = |number| {
            let port = SimDevice::offloading(number).with_mtu(mtu);
            if small { port.receiving_small() } else { port }
        };
        let nodes = [(configuration(0), port(0)), (configuration(1), port(1))];
        let mut world = World::with(nodes, Faults::default());
        let listener = world.listen(1, 80, 1);
        for address in [v4(1), v6(1)].into_iter().filter(|address| address.is_ipv4() || mtu >= 1280) {
            let (client, server) = world.connect(0, SocketAddr::new(address, 80), (1, listener));
            world.nodes[0].device().unwrap().offloads.clear();
            assert!(world.transfer((0, client), (1, server), &bytes, 20 * SECOND) == bytes);
            assert!(world.transfer((1, server), (0, client), &bytes, 20 * SECOND) == bytes);
            let offloads = &world.nodes[0].device().unwrap().offloads;
            let largest = offloads.iter().map(|&(size, _)| size).max().unwrap();
            assert!(largest > large, "{largest} to {address}");
            assert!(
                offloads
                    .iter()
                    .filter(|(size, _)| *size > 200)
                    .all(|(_, offload)| offload.checksum.is_some())
            );
        }
    }
}

#[test]
fn path_mtu_limits_packets() {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr};

    // MTU reported by a router (0: not reported, which means the minimum), resulting size of the packets, and
    // true if DF is set.
    for (mtu, size, dont_fragment) in [(1000_u16, 1000, true), (0, 552, false)] {
        let (mut world, client, server) = World::pair();
        let largest = |world: &mut World| {
            let frames = world.wire.borrow_mut().log.replace(std::vec![]).unwrap_or_default();
            frames.into_iter().max_by_key(Vec::len).unwrap()
        };
        world.wire.borrow_mut().log = Some(std::vec![]);
        world.wire.borrow_mut().is_cut = true;
        world.nodes[0].send(client, &pattern(1400), None).unwrap();
        world.nodes[0].poll(world.now);
        let frame = largest(&mut world);
        world.wire.borrow_mut().is_cut = false;
        let sent = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        assert!(sent.dont_frag());
        let message = Icmpv4Repr::DstUnreachable {
            reason: Icmpv4DstUnreachable::FragRequired,
            header: Ipv4Repr {
                src_addr: sent.src_addr(),
                dst_addr: sent.dst_addr(),
                next_header: IpProtocol::Tcp,
                payload_len: 20,
                hop_limit: 64,
            },
            data: &sent.payload()[..20],
        };
        world.inject(1, mac(0), header(v4(1), v4(0), IpProtocol::Icmp, message.buffer_len()), |bytes| {
            message.emit(&mut Icmpv4Packet::new_unchecked(&mut *bytes), &ChecksumCapabilities::default());
            bytes[6..8].copy_from_slice(&mtu.to_be_bytes());
            Icmpv4Packet::new_unchecked(bytes).fill_checksum();
        });
        world.run(MILLISECOND);
        largest(&mut world);
        assert!(world.run_until(SECOND, |world| world.receive(1, server).is_ok()));
        let frame = largest(&mut world);
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!((packet.total_len(), packet.dont_frag()), (size, dont_fragment));
    }
}

#[test]
fn small_answer_is_sent_at_once() {
    let (mut world, client, server) = World::pair();
    for round in 0..20_u8 {
        let start = world.now;
        world.nodes[0].send(client, &[round], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(1, server) == Ok(std::vec![round])));
        world.nodes[1].send(server, &[round, 1], None).unwrap();
        assert!(world.run_until(SECOND, |world| world.receive(0, client) == Ok(std::vec![round, 1])));
        assert!(world.now - start < MILLISECOND, "{}", world.now - start);
    }
}

#[test]
fn nagle_delays_a_small_segment_only_behind_another() {
    let (mut world, client, server) = World::pair();
    // Warm up, so that the congestion window allows all of the data at once.
    let mut warm = 0;
    let total = if cfg!(miri) { 20_000 } else { 100_000 };
    world.nodes[0].send(client, &pattern(total), None).unwrap();
    world.run_until(SECOND, |world| {
        warm += world.receive(1, server).map_or(0, |bytes| bytes.len());
        warm == total
    });
    world.run(SECOND);
    let took = |world: &mut World, count: usize, size: usize| {
        let start = world.now;
        for _ in 0..count {
            world.nodes[0].send(client, &pattern(size), None).unwrap();
            world.nodes[0].poll(start);
        }
        let mut arrived = 0;
        world.run_until(SECOND, |world| {
            arrived += world.receive(1, server).map_or(0, |bytes| bytes.len());
            arrived == count * size
        });
        let took = world.now - start;
        world.run(SECOND);
        took
    };
    let full = took(&mut world, 1, 1460 + 100);
    assert!(full < MILLISECOND, "{full}");
    // Of three small segments the first is sent, the others wait for its ACK, which is delayed.
    world.nodes[1].send(server, b"answer", None).unwrap();
    world.run(SECOND);
    let small = took(&mut world, 3, 3);
    assert!(small >= MILLISECOND, "{small}");
    world.nodes[0].set_option(client, SocketOption::new(OptionName::NoDelay, true)).unwrap();
    let small = took(&mut world, 3, 3);
    assert!(small < MILLISECOND, "{small}");
}

#[test]
fn slow_reader_blocks_and_resumes_the_writer() {
    let (mut world, client, server) = World::pair();
    let mut sent = 0;
    let chunk = pattern(10_000);
    while let Ok(count) = world.nodes[0].send(client, &chunk, None) {
        sent += count;
        world.run(10 * MILLISECOND);
    }
    assert!(!world.readiness(0, client).write && world.readiness(1, server).read);
    // Windows are multiples of 128 bytes, so fewer than 128 bytes may stay free.
    assert!(sent > 2 * LARGEST - 128, "{sent}");
    world.run(10 * SECOND);
    world.nodes[0].host().woken.clear();
    let mut received = 0;
    assert!(world.run_until(10 * SECOND, |world| {
        received += world.receive(1, server).map_or(0, |bytes| bytes.len());
        received == sent
    }));
    assert!(world.readiness(0, client).write);
    assert!(world.nodes[0].host().woken.contains(&1000));
}

#[test]
fn peek_leaves_data_across_buffer_wrap() {
    let (mut world, client, server) = World::pair();
    let bytes = pattern(LARGEST / 4 * 3);
    for _ in 0..4 {
        world.nodes[0].send(client, &bytes, None).unwrap();
        world.run(SECOND);
        for _ in 0..2 {
            let mut seen = Vec::new();
            let mut peek = |bytes: &[u8]| {
                seen.extend_from_slice(bytes);
                bytes.len()
            };
            assert_eq!(world.nodes[1].receive(server, true, &mut peek), Ok((bytes.len(), None)));
            assert!(seen == bytes);
        }
        let mut seen = 0;
        assert_eq!(
            world.nodes[1].receive(server, true, &mut |_| {
                seen += 1;
                5
            }),
            Ok((5, None))
        );
        assert_eq!(seen, 1);
        assert!(world.receive(1, server).unwrap() == bytes);
    }
}

/// Sends until the buffers of both sides are full; returns the number of bytes.
fn fill(world: &mut World, node: usize, socket: crate::SocketId, piece: &[u8]) -> usize {
    let mut total = 0;
    loop {
        match world.nodes[node].send(socket, piece, None) {
            Ok(size) => total += size,
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                return total;
            }
        }
        world.run(5 * MILLISECOND);
    }
}

/// Segments that a node has sent: end, acknowledgement and size of each.
fn segments(world: &World, node: u8) -> Vec<(TcpSeqNumber, TcpSeqNumber, usize)> {
    let wire = world.wire.borrow();
    let frames = wire.log.iter().flatten().filter(|frame| frame.get(6..12) == Some(&[2, 0, 0, 0, 1, node]));
    let payloads = frames.filter_map(|frame| Frame::parse(frame)).map(|frame| frame.payload);
    let packets = payloads.filter_map(|payload| {
        let packet = Packet::parse(payload)?;
        let segment = packet.tcp(true)?.segment;
        let size = segment.payload.len();
        let [end, ack] =
            [segment.header.seq.0, segment.header.ack.0].map(|seq| TcpSeqNumber(seq.cast_signed()));
        Some((end + size, ack, size))
    });
    packets.collect()
}

/// The window is advertised in multiples of 16. The rounding may shrink it by bytes that the peer has sent
/// already.
#[test]
#[cfg_attr(miri, ignore = "the window of a small buffer is exact")]
fn window_update_of_a_peer_beyond_the_window_is_accepted() {
    let (mut world, client, server) = World::pair();
    world.wire.borrow_mut().log = Some(Vec::new());
    let bytes = pattern(100_001);
    fill(&mut world, 1, server, &bytes);
    fill(&mut world, 0, client, &bytes);
    let (end, acknowledged, _) = *segments(&world, 0).last().unwrap();
    world.wire.borrow_mut().log = Some(Vec::new());
    let (from, to) = (world.nodes[0].local(client).unwrap(), world.nodes[0].remote(client).unwrap());
    for ahead in 1..16 {
        let seq = Seq((end + ahead).0.cast_unsigned());
        let ack = Seq(acknowledged.0.cast_unsigned());
        let answer = Header { seq, ack, flags: Flags::ACK, window: 1000, ..Header::default() };
        let header = header(from.ip(), to.ip(), IpProtocol::Tcp, TCP);
        world.inject(0, mac(1), header, |bytes| {
            write_header(bytes, from.port(), to.port(), &answer);
            fill_checksum(bytes, from.ip(), to.ip(), ChecksumBy::Software);
        });
    }
    world.run(MILLISECOND);
    assert!(segments(&world, 1).iter().any(|(.., size)| *size > 1000));
}

/// Buffer sizes can be set at any time.
#[test]
fn buffer_sizes_can_be_set_after_connect() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].set_option(client, SocketOption::new(OptionName::SendBuffer, 20_000_u32)).unwrap();
    world.nodes[1].set_option(server, SocketOption::new(OptionName::ReceiveBuffer, 30_000_u32)).unwrap();
    let bytes = pattern(200_000);
    let taken = fill(&mut world, 0, client, &bytes);
    // The window scale of the SYN stays.
    assert!((20_000..20_000 + 30_000 + 65_535).contains(&taken), "{taken}");
    let mut received = 0;
    assert!(world.run_until(SECOND, |world| {
        received += world.receive(1, server).map_or(0, |bytes| bytes.len());
        received == taken
    }));
    let size = world.nodes[0].option(client, OptionName::SendBuffer);
    assert_eq!(size, Ok(20_000));
}
