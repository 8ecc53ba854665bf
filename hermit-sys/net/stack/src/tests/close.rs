//! Close, shutdown, resets and timeouts of connections.
//!
//! A program may end a connection in several ways, and the peer may vanish. The tests check that sent data is
//! delivered after a close, that errors and readiness are those of Linux, and that no state is left after the
//! timeouts.

use crate::testing::wire::{Faults, SimDevice};
use crate::testing::{MILLISECOND, SECOND, World, pattern, v4};
use crate::{Errno, Family, Kind, OptionName, Readiness, Shutdown, SocketOption};
use core::net::SocketAddr;
use std::vec;

#[test]
fn close_delivers_sent_data() {
    let (mut world, client, server) = World::pair();
    let bytes = pattern(if cfg!(miri) { 20_000 } else { 500_000 });
    let mut sent = 0;
    world.run_until(5 * SECOND, |world| {
        sent += world.nodes[0].send(client, &bytes[sent..], None).unwrap_or(0);
        sent == bytes.len()
    });
    world.nodes[0].close(client).unwrap();
    assert_eq!(world.nodes[0].close(client), Err(Errno::EBADF));
    let mut received = vec![];
    assert!(world.run_until(5 * SECOND, |world| match world.receive(1, server) {
        Ok(more) if more.is_empty() => true,
        Ok(more) => {
            received.extend(more);
            false
        }
        Err(_) => false,
    }));
    assert!(received == bytes);
    let half = Readiness { read: true, write: true, read_hang_up: true, ..Readiness::default() };
    assert_eq!(world.readiness(1, server), half);
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn close_all_delivers_sent_data_and_fins() {
    let (mut world, client, server) = World::pair();
    let listener = world.listen(0, 81, 1);
    let idle = world.start(1, SocketAddr::new(v4(0), 81));
    world.run(SECOND);
    let bytes = pattern(if cfg!(miri) { 10_000 } else { 100_000 });
    assert_eq!(world.nodes[0].send(client, &bytes, None), Ok(bytes.len()));
    world.nodes[0].close_all();
    assert!(!world.nodes[0].is_delivered());
    assert_eq!(world.nodes[0].accept(listener, 1), Err(Errno::EBADF));
    let mut received = vec![];
    assert!(world.run_until(5 * SECOND, |world| {
        received.extend(world.receive(1, server).unwrap_or_default());
        world.nodes[0].is_delivered()
    }));
    received.extend(world.receive(1, server).unwrap_or_default());
    assert!(received == bytes);
    assert!(world.readiness(1, server).read_hang_up);
    // This connection was not accepted.
    assert_eq!(world.receive(1, idle), Err(Errno::ECONNRESET));
}

#[test]
fn close_all_without_connections_is_delivered_at_once() {
    let mut world = World::new(1);
    world.listen(0, 80, 1);
    world.nodes[0].close_all();
    assert!(world.nodes[0].is_delivered());
}

#[test]
fn close_all_waits_for_datagram_in_neighbor_resolution() {
    let mut world = World::new(2);
    let receiver = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(receiver, SocketAddr::new(v4(1), 9)).unwrap();
    let sender = world.socket(0, Family::V4, Kind::Datagram);
    world.nodes[0].send(sender, b"last words", Some(SocketAddr::new(v4(1), 9))).unwrap();
    world.nodes[0].close_all();
    assert!(!world.nodes[0].is_delivered());
    assert!(world.run_until(SECOND, |world| world.nodes[0].is_delivered()));
    world.run(MILLISECOND);
    assert_eq!(world.receive(1, receiver), Ok(b"last words".to_vec()));
}

#[test]
fn close_all_drops_datagram_to_neighbor_that_does_not_answer() {
    let mut world = World::new(2);
    let sender = world.socket(0, Family::V4, Kind::Datagram);
    world.nodes[0].send(sender, b"anything", Some(SocketAddr::new(v4(7), 9))).unwrap();
    world.nodes[0].close_all();
    world.run(90 * MILLISECOND);
    assert!(!world.nodes[0].is_delivered());
    world.run(20 * MILLISECOND);
    assert!(world.nodes[0].is_delivered());
}

#[test]
fn shutdown_closes_directions_independently() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].shutdown(client, Shutdown::Write).unwrap();
    assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
    assert!(world.run_until(SECOND, |world| world.receive(1, server) == Ok(vec![])));
    assert_eq!(world.receive(0, client), Err(Errno::EAGAIN));
    world.nodes[1].send(server, b"still", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.receive(0, client) == Ok(b"still".to_vec())));
    let open = Readiness { write: true, ..Readiness::default() };
    assert_eq!(world.readiness(0, client), open);
    world.nodes[1].shutdown(server, Shutdown::Write).unwrap();
    let over = Readiness { read: true, write: true, hang_up: true, read_hang_up: true, error: false };
    assert!(world.run_until(SECOND, |world| {
        world.readiness(0, client) == over && world.readiness(1, server) == over
    }));
    assert_eq!(world.nodes[0].shutdown(client, Shutdown::Both), Err(Errno::ENOTCONN));
    world.nodes[0].close(client).unwrap();
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn shutdown_read_does_not_affect_the_peer() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].shutdown(client, Shutdown::Read).unwrap();
    assert_eq!(world.receive(0, client), Ok(vec![]));
    let half = Readiness { read: true, write: true, read_hang_up: true, ..Readiness::default() };
    assert_eq!(world.readiness(0, client), half);
    world.nodes[1].send(server, b"late", None).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, client), Ok(b"late".to_vec()));
    assert_eq!(world.receive(0, client), Ok(vec![]));
}

#[test]
fn close_with_unread_data_resets_the_connection() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].send(client, b"unread", None).unwrap();
    world.run(SECOND);
    world.nodes[1].close(server).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    assert_eq!(world.receive(0, client), Err(Errno::ECONNRESET));
    assert_eq!(world.receive(0, client), Ok(vec![]));
    assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
    world.nodes[0].close(client).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn data_for_a_closed_socket_is_reset() {
    let (mut world, client, server) = World::pair();
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, client), Ok(vec![]));
    world.nodes[0].send(client, b"too late", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    // The peer had sent its FIN: EPIPE, as in Linux.
    assert_eq!(world.nodes[0].option(client, OptionName::Error), Ok(Errno::EPIPE.number().unsigned_abs()));
    world.nodes[0].close(client).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn close_now_resets_the_connection_in_any_state() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].send(client, &pattern(100_000), None).unwrap();
    world.nodes[0].close_now(client).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(1, server).error));
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn data_is_received_before_econnreset() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].send(client, b"last words", None).unwrap();
    world.run(SECOND);
    world.nodes[0].close_now(client).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(1, server).error));
    assert_eq!(world.receive(1, server), Ok(b"last words".to_vec()));
    assert_eq!(world.receive(1, server), Err(Errno::ECONNRESET));
}

#[test]
fn close_of_listener_resets_its_accept_queue() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 4);
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    assert!(world.run_until(SECOND, |world| world.readiness(1, listener).read));
    world.nodes[1].close(listener).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    world.nodes[0].close(client).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(0);
}

#[test]
fn retransmission_to_a_vanished_peer_times_out_after_15_min() {
    let (mut world, client, server) = World::pair();
    world.wire.borrow_mut().is_cut = true;
    world.nodes[0].send(client, b"anything", None).unwrap();
    let start = world.now;
    assert!(world.run_until(2000 * SECOND, |world| world.readiness(0, client).error));
    let took = world.now - start;
    assert!((900 * SECOND..1000 * SECOND).contains(&took), "{took}");
    assert_eq!(world.receive(0, client), Err(Errno::ETIMEDOUT));
    world.nodes[0].close(client).unwrap();
    world.nodes[1].close(server).unwrap();
    world.run(200 * SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn idle_connection_without_keep_alive_stays_open() {
    let (mut world, client, server) = World::pair();
    world.run(5000 * SECOND);
    world.nodes[0].send(client, b"hello", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.receive(1, server) == Ok(b"hello".to_vec())));
}

#[test]
fn fin_wait_2_of_a_closed_socket_ends_after_60_s() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].close(client).unwrap();
    world.run(50 * SECOND);
    assert_eq!(world.nodes[0].layers.tcp.connections().len(), 1);
    world.run(20 * SECOND);
    assert_eq!(world.nodes[0].layers.tcp.connections().len(), 0);
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

/// Makes a socket of the first host probe after 10 s, three times, every 2 s.
fn keep_alive(world: &mut World, socket: crate::SocketId) {
    for option in [
        SocketOption::new(OptionName::KeepAlive, true),
        SocketOption::new(OptionName::KeepAliveIdle, 10_u32),
        SocketOption::new(OptionName::KeepAliveInterval, 2_u32),
        SocketOption::new(OptionName::KeepAliveCount, 3_u32),
    ] {
        world.nodes[0].set_option(socket, option).unwrap();
    }
}

#[test]
fn keep_alive_probes_idle_peer_and_times_out() {
    let (mut world, client, _server) = World::pair();
    keep_alive(&mut world, client);
    world.run(100 * SECOND);
    assert!(!world.readiness(0, client).error);
    world.wire.borrow_mut().is_cut = true;
    let start = world.now;
    assert!(world.run_until(100 * SECOND, |world| world.readiness(0, client).error));
    let took = world.now - start;
    assert!((6 * SECOND..17 * SECOND).contains(&took), "{took}");
    assert_eq!(world.receive(0, client), Err(Errno::ETIMEDOUT));
}

/// As in Linux, the user timeout replaces the number of probes, and also ends a connection with
/// unacknowledged data.
#[test]
fn user_timeout_ends_connections_without_an_answer() {
    for has_data in [false, true] {
        let (mut world, client, _server) = World::pair();
        keep_alive(&mut world, client);
        let limit = SocketOption::new(OptionName::UserTimeout, 30_000_u32);
        world.nodes[0].set_option(client, limit).unwrap();
        assert_eq!(world.nodes[0].option(client, OptionName::UserTimeout), Ok(30_000));
        world.run(SECOND);
        world.wire.borrow_mut().is_cut = true;
        if has_data {
            world.nodes[0].send(client, b"lost", None).unwrap();
        }
        let start = world.now;
        assert!(world.run_until(1000 * SECOND, |world| world.readiness(0, client).error));
        let took = world.now - start;
        assert!((27 * SECOND..33 * SECOND).contains(&took), "{has_data} {took}");
    }
}

#[test]
fn congestion_control_is_that_of_the_configuration_or_the_option() {
    let host = |node| {
        let congestion = crate::CongestionControl::Bbr;
        (crate::Configuration { congestion, ..crate::testing::configuration(node) }, SimDevice::plain(node))
    };
    let mut world = World::with([0, 1].map(host), Faults { delay: 10_000_000, ..Faults::default() });
    let listener = world.listen(1, 80, 8);
    let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
    let bbr = Ok(crate::CongestionControl::Bbr as u32);
    assert_eq!(world.nodes[0].option(client, OptionName::Congestion), bbr);
    assert_eq!(world.nodes[1].option(server, OptionName::Congestion), bbr);
    let bytes = pattern(200_000);
    assert_eq!(world.transfer((0, client), (1, server), &bytes, 100 * SECOND), bytes);
    let unknown = SocketOption::new(OptionName::Congestion, 9_u32);
    assert_eq!(world.nodes[1].set_option(server, unknown), Err(Errno::ENOENT));
    let reno = SocketOption::new(OptionName::Congestion, crate::CongestionControl::Reno as u32);
    world.nodes[1].set_option(server, reno).unwrap();
    assert_eq!(world.transfer((1, server), (0, client), &bytes, 100 * SECOND), bytes);
}

#[test]
fn reset_after_fin_is_not_reported_to_readers() {
    let (mut world, client, server) = World::pair();
    world.nodes[1].send(server, b"last words", None).unwrap();
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.nodes[0].send(client, b"too late", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    assert_eq!(world.receive(0, client), Ok(b"last words".to_vec()));
    assert_eq!(world.receive(0, client), Ok(vec![]));
    assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
    assert_eq!(world.nodes[0].option(client, OptionName::Error), Ok(0));
}

#[test]
fn data_after_shutdown_of_both_directions_resets_the_connection() {
    for unread in [&b"unread"[..], b""] {
        let (mut world, client, server) = World::pair();
        world.nodes[1].send(server, unread, None).unwrap();
        world.run(SECOND);
        world.nodes[0].shutdown(client, Shutdown::Both).unwrap();
        world.run(SECOND);
        assert_eq!(world.receive(1, server), Ok(vec![]));
        world.nodes[1].send(server, b"without effect", None).unwrap();
        assert!(world.run_until(SECOND, |world| world.readiness(1, server).error));
        assert_eq!(world.nodes[1].send(server, b"x", None), Err(Errno::EPIPE));
        if !unread.is_empty() {
            assert!(world.receive(0, client).unwrap().starts_with(unread));
        }
        assert_eq!(world.receive(0, client), Err(Errno::ECONNRESET));
        assert_eq!(world.receive(0, client), Ok(vec![]));
        world.nodes[0].close(client).unwrap();
        world.nodes[1].close(server).unwrap();
        world.run(SECOND);
        world.assert_nothing_left(1);
    }
}

#[test]
fn finish_reports_when_sent_data_is_acknowledged() {
    let (mut world, client, server) = World::pair();
    let bytes = pattern(if cfg!(miri) { 10_000 } else { 100_000 });
    let sent = world.nodes[0].send(client, &bytes, None).unwrap();
    assert_eq!(world.nodes[0].finish(client), Err(Errno::EAGAIN));
    assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
    world.wire.borrow_mut().is_cut = true;
    world.run(SECOND);
    assert_eq!(world.nodes[0].finish(client), Err(Errno::EAGAIN));
    world.wire.borrow_mut().is_cut = false;
    world.nodes[0].host().woken.clear();
    assert!(world.run_until(5 * SECOND, |world| world.nodes[0].finish(client).is_ok()));
    assert!(world.nodes[0].host().woken.contains(&1000));
    world.nodes[0].close(client).unwrap();
    assert!(world.receive(1, server).unwrap() == bytes[..sent]);
    // `finish` does not wait for unconnected sockets and connections that will be reset.
    world.nodes[1].send(server, b"x", None).unwrap();
    world.run(SECOND);
    assert_eq!(world.nodes[1].finish(server), Ok(()));
    let idle = world.socket(0, Family::V4, Kind::Stream);
    assert_eq!(world.nodes[0].finish(idle), Ok(()));
}

/// The end that closes last has more data than fits into its peer's window.
#[test]
fn data_left_at_simultaneous_close_needs_no_window_probe() {
    let (mut world, client, server) = World::pair();
    world.nodes[1].shutdown(server, Shutdown::Write).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).read_hang_up));
    let bytes = pattern(2_000_000);
    let mut sent = 0;
    while let Ok(size) = world.nodes[0].send(client, &bytes[sent..], None) {
        sent += size;
        world.run(5 * MILLISECOND);
    }
    world.nodes[0].close(client).unwrap();
    let start = world.now;
    let mut received = vec![];
    loop {
        match world.receive(1, server) {
            Ok(part) if part.is_empty() => break,
            part => received.extend(part.unwrap_or_default()),
        }
        world.run(5 * MILLISECOND);
    }
    assert!(received == bytes[..sent] && world.now - start < SECOND / 2);
    world.nodes[1].close(server).unwrap();
    world.run(2 * SECOND);
    world.assert_nothing_left(1);
}
