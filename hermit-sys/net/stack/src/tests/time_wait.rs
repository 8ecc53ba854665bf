//! TIME-WAIT, and its replacement by new connections.

use crate::testing::peer::{ACK, FIN, OPTIONS, Peer, SYN};
use crate::testing::{MILLISECOND, SECOND, World, header, mac, v4};
use crate::{Errno, Family, Kind, OptionName, Shutdown, SocketOption};
use core::net::SocketAddr;
use std::vec;

#[test]
fn time_wait_blocks_the_port() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 4);
    let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    // The host that closes first is in TIME-WAIT.
    world.nodes[1].close(server).unwrap();
    world.run(10 * MILLISECOND);
    world.nodes[0].close(client).unwrap();
    world.nodes[1].close(listener).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(0);
    let again = world.socket(1, Family::V4, Kind::Stream);
    let address: SocketAddr = "0.0.0.0:80".parse().unwrap();
    assert_eq!(world.nodes[1].bind(again, address), Err(Errno::EADDRINUSE));
    world.nodes[1].set_option(again, SocketOption::new(OptionName::ReuseAddress, true)).unwrap();
    // The connection in TIME-WAIT did not have SO_REUSEADDR.
    assert_eq!(world.nodes[1].bind(again, address), Err(Errno::EADDRINUSE));
    world.run(61 * SECOND);
    assert_eq!(world.nodes[1].bind(again, address), Ok(()));
}

#[test]
fn time_wait_of_an_idle_host_ends_after_60_s() {
    let (mut world, client, server) = World::pair();
    let peer = Peer::of(&mut world, 1, server);
    world.nodes[1].close(server).unwrap();
    world.run(10 * MILLISECOND);
    world.nodes[0].close(client).unwrap();
    world.run(SECOND);
    assert_eq!(world.nodes[1].layers.tcp.connections().len(), 0);
    // The next connection of the same ports, with a sequence number that seems old: passt's wrap after 137 s.
    for (pause, half_open) in [(50, 0), (10, 1)] {
        world.now += pause * SECOND;
        world.wire.borrow_mut().now = world.now;
        peer.send(&mut world, SYN, peer.first - 1000, (&OPTIONS, &[]));
        peer.poll(&mut world);
        assert_eq!(world.nodes[1].layers.tcp.half_open().len(), half_open, "{pause}");
    }
}

#[test]
fn syn_right_behind_fin_starts_a_new_connection() {
    // Flags of the peer's last segment, and true if the program has closed the socket. If the peer's FIN is
    // lost, the connection stays in FIN-WAIT-2.
    for (flags, is_closed) in [(FIN | ACK, true), (FIN | ACK, false), (ACK, true)] {
        let (mut world, _client, server) = World::pair();
        let mut peer = Peer::of(&mut world, 1, server);
        world.nodes[1].shutdown(server, Shutdown::Write).unwrap();
        if is_closed {
            world.nodes[1].close(server).unwrap();
        }
        peer.poll(&mut world);
        peer.acknowledged += 1;
        // One poll receives all segments.
        world.wire.borrow_mut().log = Some(vec![]);
        peer.send(&mut world, flags, peer.first, (&[], &[]));
        peer.send(&mut world, SYN, peer.first + 1000, (&OPTIONS, &[]));
        peer.poll(&mut world);
        assert_eq!(world.nodes[1].layers.tcp.half_open().len(), 1, "{flags:#x}, {is_closed}");
        assert_eq!(world.nodes[1].layers.tcp.connections().len(), 1);
        // Only the new connection is answered: passt resets its client for an ACK of the old one.
        let frames = world.wire.borrow_mut().log.take().unwrap().len();
        assert_eq!(frames, 2 + 1, "{flags:#x}, {is_closed}");
        if !is_closed {
            assert_eq!(world.receive(1, server), Ok(vec![]));
        }
    }
}

#[test]
fn two_hosts_in_time_wait_do_not_answer_each_other() {
    use smoltcp::wire::{IpProtocol, TcpPacket, TcpSeqNumber};
    for offset in [0, -5] {
        let (mut world, client, server) = World::pair();
        let port = world.nodes[1].remote(server).unwrap().port();
        let ours = world.nodes[0].layers.tcp.slot(client.key()).unwrap();
        let (last, _) = world.nodes[0].layers.tcp.connection(ours).unwrap().numbers();
        world.nodes[0].close(client).unwrap();
        world.nodes[1].close(server).unwrap();
        world.run(SECOND);
        world.assert_nothing_left(1);
        world.wire.borrow_mut().log = Some(vec![]);
        let (from, to) = (v4(0), v4(1));
        world.inject(0, mac(1), header(from, to, IpProtocol::Tcp, 20), |bytes| {
            let mut segment = TcpPacket::new_unchecked(bytes);
            segment.set_src_port(port);
            segment.set_dst_port(80);
            // After the FIN.
            segment.set_seq_number(TcpSeqNumber(last.0.wrapping_add(1 + offset)));
            segment.set_ack_number(TcpSeqNumber(1));
            segment.set_header_len(20);
            segment.clear_flags();
            segment.set_ack(true);
            segment.set_window_len(100);
            segment.set_urgent_at(0);
            segment.fill_checksum(&from.into(), &to.into());
        });
        world.run(MILLISECOND);
        let frames = world.wire.borrow_mut().log.take().unwrap().len() - 1;
        // Segments without news are not answered, old ones once.
        assert_eq!(frames, usize::from(offset != 0));
    }
}
