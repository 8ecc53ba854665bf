//! Connections that end, one way or another.

use crate::testing::{MILLISECOND, SECOND, World, pattern, v4};
use crate::{Errno, Family, Kind, OptionName, Readiness, Shutdown, SocketOption};
use core::net::SocketAddr;
use std::vec;

#[test]
fn what_was_sent_before_closing_arrives() {
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
fn a_system_that_ends_delivers_what_was_sent_and_says_so() {
    let (mut world, client, server) = World::pair();
    let listener = world.listen(0, 81, 1);
    let idle = world.start(1, SocketAddr::new(v4(0), 81));
    world.run(SECOND);
    let bytes = pattern(if cfg!(miri) { 10_000 } else { 100_000 });
    assert_eq!(world.nodes[0].send(client, &bytes, None), Ok(bytes.len()));
    world.nodes[0].wind_up();
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
    // Nobody had accepted this one.
    assert_eq!(world.receive(1, idle), Err(Errno::ECONNRESET));
}

#[test]
fn who_has_nobody_to_tell_ends_at_once() {
    let mut world = World::new(1);
    world.listen(0, 80, 1);
    world.nodes[0].wind_up();
    assert!(world.nodes[0].is_delivered());
}

#[test]
fn a_datagram_whose_neighbor_is_not_known_yet_is_waited_for() {
    let mut world = World::new(2);
    let receiver = world.socket(1, Family::V4, Kind::Datagram);
    world.nodes[1].bind(receiver, SocketAddr::new(v4(1), 9)).unwrap();
    let sender = world.socket(0, Family::V4, Kind::Datagram);
    world.nodes[0].send(sender, b"last words", Some(SocketAddr::new(v4(1), 9))).unwrap();
    world.nodes[0].wind_up();
    assert!(!world.nodes[0].is_delivered());
    assert!(world.run_until(SECOND, |world| world.nodes[0].is_delivered()));
    world.run(MILLISECOND);
    assert_eq!(world.receive(1, receiver), Ok(b"last words".to_vec()));
}

#[test]
fn a_datagram_for_nobody_is_waited_for_until_its_neighbor_is_given_up() {
    let mut world = World::new(2);
    let sender = world.socket(0, Family::V4, Kind::Datagram);
    world.nodes[0].send(sender, b"anybody?", Some(SocketAddr::new(v4(7), 9))).unwrap();
    world.nodes[0].wind_up();
    assert!(!world.run_until(5 * SECOND / 2, |world| world.nodes[0].is_delivered()));
    assert!(world.run_until(SECOND, |world| world.nodes[0].is_delivered()));
}

#[test]
fn each_half_is_shut_down_on_its_own() {
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
fn shutting_the_reading_half_ends_it_for_the_reader_only() {
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
fn unread_bytes_reset_the_peer() {
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
fn bytes_for_a_closed_socket_reset_the_peer() {
    let (mut world, client, server) = World::pair();
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    assert_eq!(world.receive(0, client), Ok(vec![]));
    world.nodes[0].send(client, b"too late", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    // The peer had closed its half: Linux says so.
    assert_eq!(world.nodes[0].option(client, OptionName::Error), Ok(SocketOption::Error(Some(Errno::EPIPE))));
    world.nodes[0].close(client).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn closing_now_resets_the_peer_whatever_is_under_way() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].send(client, &pattern(100_000), None).unwrap();
    world.nodes[0].close_now(client).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(1, server).error));
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn data_is_received_before_the_reset_is_told() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].send(client, b"last words", None).unwrap();
    world.run(SECOND);
    world.nodes[0].close_now(client).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(1, server).error));
    assert_eq!(world.receive(1, server), Ok(b"last words".to_vec()));
    assert_eq!(world.receive(1, server), Err(Errno::ECONNRESET));
}

#[test]
fn a_closed_listener_resets_those_who_wait() {
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
fn a_vanished_peer_is_given_up_after_a_quarter_of_an_hour() {
    let (mut world, client, server) = World::pair();
    world.wire.borrow_mut().is_cut = true;
    world.nodes[0].send(client, b"anybody?", None).unwrap();
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
fn an_idle_connection_lives_on() {
    let (mut world, client, server) = World::pair();
    world.run(5000 * SECOND);
    world.nodes[0].send(client, b"hello", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.receive(1, server) == Ok(b"hello".to_vec())));
}

#[test]
fn a_peer_that_never_closes_its_half_is_forgotten_after_a_minute() {
    let (mut world, client, server) = World::pair();
    world.nodes[0].close(client).unwrap();
    world.run(50 * SECOND);
    assert_eq!(world.nodes[0].core.tcp.connections.len(), 1);
    world.run(20 * SECOND);
    assert_eq!(world.nodes[0].core.tcp.connections.len(), 0);
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.assert_nothing_left(1);
}

#[test]
fn a_silent_peer_is_asked_whether_it_is_there() {
    let (mut world, client, _server) = World::pair();
    for option in [
        SocketOption::KeepAlive(true),
        SocketOption::KeepAliveIdle(10),
        SocketOption::KeepAliveInterval(2),
        SocketOption::KeepAliveCount(3),
    ] {
        world.nodes[0].set_option(client, option).unwrap();
    }
    world.run(100 * SECOND);
    assert!(!world.readiness(0, client).error);
    world.wire.borrow_mut().is_cut = true;
    let start = world.now;
    assert!(world.run_until(100 * SECOND, |world| world.readiness(0, client).error));
    let took = world.now - start;
    assert!((6 * SECOND..17 * SECOND).contains(&took), "{took}");
    assert_eq!(world.receive(0, client), Err(Errno::ETIMEDOUT));
}

#[test]
fn what_comes_after_the_end_does_not_concern_who_reads() {
    let (mut world, client, server) = World::pair();
    world.nodes[1].send(server, b"last words", None).unwrap();
    world.nodes[1].close(server).unwrap();
    world.run(SECOND);
    world.nodes[0].send(client, b"too late", None).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    assert_eq!(world.receive(0, client), Ok(b"last words".to_vec()));
    assert_eq!(world.receive(0, client), Ok(vec![]));
    assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
    assert_eq!(world.nodes[0].option(client, OptionName::Error), Ok(SocketOption::Error(None)));
}

#[test]
fn bytes_for_one_who_has_shut_both_halves_reset_the_connection() {
    for unread in [&b"unread"[..], b""] {
        let (mut world, client, server) = World::pair();
        world.nodes[1].send(server, unread, None).unwrap();
        world.run(SECOND);
        world.nodes[0].shutdown(client, Shutdown::Both).unwrap();
        world.run(SECOND);
        assert_eq!(world.receive(1, server), Ok(vec![]));
        world.nodes[1].send(server, b"in vain", None).unwrap();
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
fn it_is_known_when_everything_has_been_delivered() {
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
    // What is not connected, or will be reset, is not waited for.
    world.nodes[1].send(server, b"x", None).unwrap();
    world.run(SECOND);
    assert_eq!(world.nodes[1].finish(server), Ok(()));
    let idle = world.socket(0, Family::V4, Kind::Stream);
    assert_eq!(world.nodes[0].finish(idle), Ok(()));
}

/// Whoever ends last may have more to say than its peer takes at a time.
#[test]
fn what_is_left_after_both_ends_does_not_wait_for_probes() {
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
