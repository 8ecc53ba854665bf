//! SYNs that find a full queue: bursts, which are served, and floods, which do not lock out other peers.
//!
//! A listener has room for a limited number of half-open connections. The tests check both sides of the
//! limit: a burst of real clients must be served without a retransmitted SYN, since passt does not retransmit
//! SYNs, and a flood of SYNs without answers must not exhaust memory or keep clients from connecting.

use crate::socket::buffers::{CONNECTION, SMALLEST};
use crate::tcp::deferred::SIZE;
use crate::testing::peer::{ACK, Peer};
use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, System, World, configuration, header, mac, v4};
use crate::{Configuration, Errno};
use core::net::{IpAddr, SocketAddr};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber};
use std::vec::Vec;

/// Number of deferred SYNs of a host.
fn deferred(world: &World) -> usize {
    world.nodes[1].layers.tcp.deferred()
}

#[test]
#[cfg_attr(miri, ignore = "takes more than three minutes")]
fn burst_above_the_backlog_needs_no_syn_retransmission() {
    const CLIENTS: usize = if cfg!(miri) { 300 } else { 1000 };
    let mut world = hosts();
    let listener = world.listen(1, 80, 128);
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    world.run(SECOND / 10);
    let start = world.now;
    assert!(deferred(&world) >= CLIENTS - 129 - 128, "{}", deferred(&world));
    // A SYN or the final ACK of a handshake is retransmitted after 1 s.
    let mut accepted = 0;
    let all = world.run_until(SECOND / 2, |world| {
        while world.nodes[1].accept(listener, 1).is_ok() {
            accepted += 1;
        }
        world.nodes[1].poll(world.now);
        accepted == CLIENTS && clients.iter().all(|&id| world.readiness(0, id).write)
    });
    assert!(all, "{accepted} after {} us", (world.now - start) / 1000);
    assert_eq!(deferred(&world), 0);
    assert_eq!(world.nodes[1].accept(listener, 1), Err(Errno::EAGAIN));
}

/// Creates two hosts with one shard, since each shard has queues of its own.
fn hosts() -> World {
    let host = |node| (Configuration { shards: 1, ..configuration(node) }, SimDevice::plain(node));
    World::with([0, 1].map(host), Faults::default())
}

/// Two hosts, a round trip apart; the second has memory for at most 512 half-open connections.
fn distant_hosts(round_trip: u64) -> World {
    let host =
        |node, buffers| (Configuration { buffers, shards: 1, ..configuration(node) }, SimDevice::plain(node));
    let faults = Faults { delay: round_trip / 2, ..Faults::default() };
    World::with([host(0, 64 << 20), host(1, 4 << 20)], faults)
}

#[test]
#[cfg_attr(miri, ignore = "a thousand connections take minutes")]
fn burst_of_peers_that_answer_late_is_served_with_little_memory() {
    const CLIENTS: usize = 1000;
    let mut world = distant_hosts(SECOND * 3 / 10);
    let listener = world.listen(1, 80, 128);
    let mut waiting: Vec<_> = (0..CLIENTS).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    let mut most = 0;
    let all = world.run_until(20 * SECOND, |world| {
        while let Ok((server, _)) = world.nodes[1].accept(listener, 1) {
            world.nodes[1].close(server).unwrap();
        }
        most = most.max(world.nodes[1].layers.tcp.half_open().len());
        // The end of the stream that the server sends. A discarded connection would be reset instead.
        waiting.retain(|&client| {
            let is_over = world.readiness(0, client).read;
            if is_over {
                assert_eq!(world.receive(0, client), Ok(std::vec![]));
                world.nodes[0].close(client).unwrap();
            }
            !is_over
        });
        waiting.is_empty()
    });
    assert!(all, "{} are left", waiting.len());
    // The limit did not allow all clients at the same time.
    assert!((200..=512).contains(&most), "{most}");
}

#[test]
#[cfg_attr(miri, ignore = "takes more than three minutes")]
fn pause_of_the_guest_does_not_make_peers_late() {
    let mut world = distant_hosts(2 * MILLISECOND);
    let listener = world.listen(1, 80, 1024);
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    let half_open = |world: &World| world.nodes[1].layers.tcp.half_open().len();
    assert!(world.run_until(SECOND, |world| half_open(world) == 1));
    let max = world.nodes[1].layers.buffers.limit() / 4 / CONNECTION;
    let mut ports = 1..;
    let mut ask = |world: &mut World, count| {
        let asked = ports.by_ref().take(count);
        asked.for_each(|port| send_orphan_syn(world, [10, 0, 0, 100].into(), port, 80));
    };
    ask(&mut world, max - 1);
    // With the client's connection, all room is used. The acknowledgement of the client arrives after another
    // SYN, for which there is no room.
    world.now += MILLISECOND;
    world.wire.borrow_mut().now = world.now;
    // Each poll receives a part of the frames.
    (0..4).for_each(|_| _ = world.nodes[1].poll(world.now));
    assert_eq!(half_open(&world), max);
    ask(&mut world, 1);
    world.now += MILLISECOND;
    world.wire.borrow_mut().now = world.now;
    world.nodes[0].poll(world.now);
    world.now += 3 * SECOND;
    world.wire.borrow_mut().now = world.now;
    world.nodes[1].poll(world.now);
    assert!(world.nodes[1].accept(listener, 1).is_ok());
    assert!(world.readiness(0, client).write);
}

#[test]
#[cfg_attr(miri, ignore = "12,000 segments take minutes")]
fn peer_connects_during_a_flood_that_does_not_fill_the_queue() {
    // Half-open connections are kept for 1 s. At this rate, the limit of 512 would leave no room for clients.
    const PER_SECOND: u64 = 1200;
    let mut world = distant_hosts(MILLISECOND);
    let listener = world.listen(1, 80, 1024);
    let flood = |world: &mut World, seconds: u64| {
        for number in 0..seconds * PER_SECOND {
            let port = u16::try_from(1 + number % 60_000).unwrap();
            send_orphan_syn(world, [10, 0, 0, 100].into(), port, 80);
            world.run(SECOND / PER_SECOND);
        }
    };
    flood(&mut world, 12);
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    flood(&mut world, 8);
    assert!(world.readiness(0, client).write);
    assert!(world.nodes[1].accept(listener, 1).is_ok());
    assert!(world.nodes[1].layers.tcp.half_open().len() <= 512);
}

#[test]
#[cfg_attr(miri, ignore = "takes more than three minutes")]
fn deferred_syns_of_a_closed_listener_are_reset() {
    let mut world = hosts();
    let listener = world.listen(1, 80, 0);
    let clients: Vec<_> = (0..300).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    world.run(SECOND / 2);
    let count = deferred(&world);
    assert!(count >= 300 - 129, "{count}");
    world.nodes[1].close(listener).unwrap();
    assert_eq!(deferred(&world), 0);
    let failed = |world: &mut World| clients.iter().filter(|&&id| world.readiness(0, id).error).count();
    assert!(world.run_until(SECOND / 4, |world| failed(world) >= count));
}

#[test]
fn deferred_syn_expires_after_10_s() {
    let mut world = hosts();
    let listener = world.listen(1, 80, 0);
    world.start(0, SocketAddr::new(v4(1), 80));
    world.run(SECOND);
    send_orphan_syn(&mut world, [10, 0, 0, 100].into(), 1, 80);
    world.run(SECOND);
    assert_eq!(deferred(&world), 1);
    world.run(10 * SECOND);
    assert_eq!(deferred(&world), 0);
    world.nodes[1].close(listener).unwrap();
}

#[test]
fn full_listener_does_not_hold_up_the_deferred_syns_of_another() {
    let mut world = hosts();
    let (full, other) = (world.listen(1, 80, 0), world.listen(1, 81, 0));
    for port in [80, 80, 81, 81] {
        world.start(0, SocketAddr::new(v4(1), port));
        world.run(SECOND / 100);
    }
    assert_eq!(deferred(&world), 2);
    for _ in 0..2 {
        assert!(world.run_until(SECOND / 5, |world| world.nodes[1].accept(other, 1).is_ok()));
    }
    assert_eq!(deferred(&world), 1);
    world.nodes[1].close(full).unwrap();
}

/// Sends a SYN from a neighbor that does not exist to the second host.
fn send_orphan_syn(world: &mut World, source: IpAddr, from: u16, to: u16) {
    let repr = TcpRepr {
        src_port: from,
        dst_port: to,
        control: TcpControl::Syn,
        seq_number: TcpSeqNumber(7),
        ack_number: None,
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    world.inject(0, mac(1), header(source, v4(1), IpProtocol::Tcp, repr.buffer_len()), |bytes| {
        let (from, to) = (source.into(), v4(1).into());
        repr.emit(&mut TcpPacket::new_unchecked(bytes), &from, &to, &ChecksumCapabilities::default());
    });
}

#[test]
#[cfg_attr(miri, ignore = "20,000 segments take minutes")]
fn syn_flood_is_bounded_and_peers_connect() {
    let mut world = hosts();
    let listener = world.listen(1, 80, 128);
    let mut host = System::new(3);
    for number in 0..20_000_u32 {
        let random = crate::Random::random(&mut host);
        let [a, b, ..] = random.to_be_bytes();
        let port = u16::from(b) * 200 + u16::try_from(number % 200).unwrap() + 1;
        send_orphan_syn(&mut world, [10, 0, 0, 100 + a % 100].into(), port, 80);
        if number % 100 == 0 {
            world.run(1_000_000);
        }
    }
    world.run(SECOND / 10);
    let node = &world.nodes[1];
    assert!(node.layers.tcp.half_open().len() <= 1024, "{}", node.layers.tcp.half_open().len());
    assert!(node.layers.buffers.used() <= configuration(1).buffers);
    assert!(deferred(&world) <= 8192);
    world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    world.run(100 * SECOND);
    assert!(world.nodes[1].layers.tcp.half_open().is_empty());
    assert_eq!(world.nodes[1].layers.tcp.connections().len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes more than three minutes")]
fn syn_flood_of_one_listener_does_not_block_others() {
    let small = |node| {
        (Configuration { buffers: 16 << 20, shards: 1, ..configuration(node) }, SimDevice::plain(node))
    };
    let mut world = World::with([small(0), small(1)], Faults::default());
    let asked = world.listen(1, 80, 1024);
    let other = world.listen(1, 81, 8);
    for port in 1..=300 {
        send_orphan_syn(&mut world, [10, 0, 0, 100].into(), port, 80);
    }
    world.run(SECOND);
    let start = world.now;
    world.connect(0, SocketAddr::new(v4(1), 81), (1, other));
    world.connect(0, SocketAddr::new(v4(1), 80), (1, asked));
    assert!(world.now < start + 3 * SECOND, "{}", world.now - start);
    // Most half-open connections were discarded to make room; the others time out.
    world.run(100 * SECOND);
    assert!(world.nodes[1].layers.tcp.half_open().is_empty());
    world.nodes[1].close(asked).unwrap();
    world.nodes[1].close(other).unwrap();
    assert_eq!(world.nodes[1].layers.tcp.connections().len(), 2);
}

#[test]
#[cfg_attr(miri, ignore = "4,000 segments take minutes")]
fn peers_connect_by_cookies_when_too_many_syns_are_deferred() {
    // 1 MiB: at most 327 deferred SYNs.
    let small =
        |node| (Configuration { buffers: 1 << 20, shards: 1, ..configuration(node) }, SimDevice::plain(node));
    let mut world = World::with([small(0), small(1)], Faults::default());
    let listener = world.listen(1, 80, 1024);
    for port in 1..=1000 {
        send_orphan_syn(&mut world, [10, 0, 0, 100].into(), port, 80);
    }
    world.run(MILLISECOND);
    let half_open = world.nodes[1].layers.tcp.half_open();
    let clients: Vec<_> = (0..3).map(|_| world.start(0, SocketAddr::new(v4(1), 80))).collect();
    // Without cookies, the clients would be half-open or deferred for at least 100 ms.
    let are_connected = |world: &mut World| clients.iter().all(|&id| world.readiness(0, id).write);
    assert!(world.run_until(50 * MILLISECOND, are_connected));
    assert_eq!(world.nodes[1].layers.tcp.half_open(), half_open);
    for &client in &clients {
        let (server, _) = world.nodes[1].accept(listener, 1).unwrap();
        let slot = world.nodes[1].layers.tcp.slot(server.key()).unwrap();
        let ours = world.nodes[0].layers.tcp.slot(client.key()).unwrap();
        let peer = world.nodes[0].layers.tcp.connection(ours).unwrap().numbers();
        let (next, expected) = world.nodes[1].layers.tcp.connection(slot).unwrap().numbers();
        assert_eq!((expected, next), peer);
        world.nodes[1].send(server, b"hello", None).unwrap();
        assert!(world.run_until(SECOND, |world| world.readiness(0, client).read));
        assert_eq!(world.receive(0, client), Ok(b"hello".to_vec()));
    }
    // A segment that does not acknowledge a cookie is refused as usual.
    let mut stray = Peer {
        node: 1,
        ends: (SocketAddr::new([10, 0, 0, 100].into(), 9), SocketAddr::new(v4(1), 80)),
        first: TcpSeqNumber(1),
        acknowledged: TcpSeqNumber(1000),
        window: 9,
    };
    let count = world.nodes[1].layers.tcp.connections().len();
    for acknowledged in 0..1000 {
        stray.acknowledged = TcpSeqNumber(acknowledged);
        stray.send(&mut world, ACK, stray.first, (&[], &[]));
        stray.poll(&mut world);
    }
    assert!(world.nodes[1].layers.tcp.connections().len() <= count);
}

#[test]
fn deferred_syns_are_charged_until_they_are_forgotten() {
    let mut world = World::with(
        (0..2).map(|node| (Configuration { shards: 1, ..configuration(node) }, SimDevice::plain(node))),
        Faults::default(),
    );
    let listener = world.listen(1, 80, 8);
    // At time 0, half-open connections would count as old.
    world.run(SECOND);
    for port in 1..=300 {
        send_orphan_syn(&mut world, [10, 0, 0, 100].into(), port, 80);
        world.nodes[1].poll(world.now);
    }
    let (deferred, half_open) = (deferred(&world), world.nodes[1].layers.tcp.half_open().len());
    assert!(deferred > 100 && deferred + half_open == 300, "{deferred} {half_open}");
    assert_eq!(world.nodes[1].layers.buffers.used(), deferred * SIZE + half_open * CONNECTION);
    world.nodes[1].close(listener).unwrap();
    world.nodes[1].poll(world.now);
    assert_eq!(world.nodes[1].layers.buffers.used(), 0);
}

/// RFC 7323 §2.4: there is room for the window advertised in a SYN-ACK, even if the buffers are smaller when
/// the cookie is acknowledged.
#[test]
#[cfg_attr(miri, ignore = "8,500 segments take minutes")]
fn cookie_advertises_what_the_smallest_buffer_stores() {
    use smoltcp::wire::TcpPacket;
    let small = |node| {
        (Configuration { buffers: 64 << 20, shards: 1, ..configuration(node) }, SimDevice::plain(node))
    };
    let mut world = World::with([small(0), small(1)], Faults::default());
    world.listen(1, 80, 8);
    // At time 0, half-open connections would count as old.
    world.run(SECOND);
    for port in 1..=8500 {
        send_orphan_syn(&mut world, [10, 0, 0, 100].into(), port, 80);
        world.nodes[1].poll(world.now);
    }
    assert!(world.nodes[1].layers.buffers.share() > SMALLEST);
    world.wire.borrow_mut().log = Some(Vec::new());
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    assert!(world.run_until(50 * MILLISECOND, |world| world.readiness(0, client).write));
    let log = world.wire.borrow_mut().log.take().unwrap();
    let segments = log.iter().filter_map(|frame| TcpPacket::new_checked(frame.get(34..)?).ok());
    let answers: Vec<_> = segments.filter(|segment| segment.syn() && segment.ack()).collect();
    assert!(!answers.is_empty());
    assert!(answers.iter().all(|answer| usize::from(answer.window_len()) <= SMALLEST));
}
