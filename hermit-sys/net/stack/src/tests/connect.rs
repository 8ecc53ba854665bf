//! Connections that come to be, and those that do not.

use crate::testing::{MILLISECOND, SECOND, World, v4, v6};
use crate::{Errno, Family, Kind, OptionName, Readiness, SocketOption};
use core::net::SocketAddr;

fn error(world: &mut World, node: usize, socket: crate::SocketId) -> Option<Errno> {
    match world.nodes[node].option(socket, OptionName::Error) {
        Ok(SocketOption::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

const FAILED: Readiness =
    Readiness { read: true, write: true, hang_up: true, read_hang_up: true, error: true };

#[test]
fn both_families_and_the_loopback_connect() {
    for (node, address) in
        [(0, v4(1)), (0, v6(1)), (1, "127.0.0.1".parse().unwrap()), (1, "::1".parse().unwrap()), (1, v4(1))]
    {
        let mut world = World::new(2);
        let listener = world.listen(1, 80, 1);
        let (client, server) = world.connect(node, SocketAddr::new(address, 80), (1, listener));
        assert_eq!(world.readiness(1, listener), Readiness::default());
        let local = world.nodes[node].local(client).unwrap();
        let remote = world.nodes[1].remote(server).unwrap();
        assert_eq!((local.ip(), local.port()), (remote.ip().to_canonical(), remote.port()));
        assert_eq!(world.nodes[node].remote(client).unwrap(), SocketAddr::new(address, 80));
        assert_eq!(world.nodes[1].local(server).unwrap().ip().to_canonical(), address);
        // Programs that connect without waiting ask twice.
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 80)), Ok(()));
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 80)), Err(Errno::EISCONN));
    }
}

#[test]
fn nobody_listening_refuses() {
    for (node, address) in [(0, v4(1)), (0, v6(1)), (1, "127.0.0.1".parse().unwrap()), (1, v6(1))] {
        let mut world = World::new(2);
        let client = world.start(node, SocketAddr::new(address, 81));
        assert!(world.run_until(SECOND, |world| world.readiness(node, client) == FAILED));
        assert!(world.now < 10 * MILLISECOND);
        assert_eq!(error(&mut world, node, client), Some(Errno::ECONNREFUSED));
        assert_eq!(error(&mut world, node, client), None);
        assert_eq!(world.readiness(node, client), Readiness { error: false, ..FAILED });
        assert_eq!(world.nodes[node].send(client, b"x", None), Err(Errno::EPIPE));
        assert_eq!(world.receive(node, client), Ok(std::vec![]));
        // Linux lets such a socket be connected once more.
        let listener = world.listen(1, 81, 1);
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 81)), Err(Errno::EINPROGRESS));
        assert!(world.run_until(SECOND, |world| world.readiness(1, listener).read));
        world.nodes[node].close(client).unwrap();
        world.nodes[1].close(listener).unwrap();
        world.run(2 * SECOND);
        world.assert_nothing_left(0);
    }
}

#[test]
fn a_neighbor_that_is_not_there_is_unreachable_after_three_seconds() {
    for address in [v4(9), v6(9)] {
        let mut world = World::new(1);
        let client = world.start(0, SocketAddr::new(address, 80));
        assert_eq!(world.nodes[0].connect(client, SocketAddr::new(address, 80)), Err(Errno::EALREADY));
        assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EAGAIN));
        assert_eq!(world.receive(0, client), Err(Errno::EAGAIN));
        assert_eq!(world.readiness(0, client), Readiness::default());
        assert!(world.run_until(10 * SECOND, |world| world.readiness(0, client) == FAILED));
        assert!((2900 * MILLISECOND..3100 * MILLISECOND).contains(&world.now), "{}", world.now);
        assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EHOSTUNREACH));
        assert_eq!(world.nodes[0].send(client, b"x", None), Err(Errno::EPIPE));
        world.nodes[0].close(client).unwrap();
        world.assert_nothing_left(0);
    }
}

#[test]
fn a_peer_that_does_not_answer_times_out() {
    let (mut world, ..) = World::pair();
    world.wire.borrow_mut().is_cut = true;
    let start = world.now;
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    assert!(world.run_until(200 * SECOND, |world| world.readiness(0, client).error));
    let took = world.now - start;
    // The neighbor itself is given up as well, but only when it is asked again.
    assert!(took <= 128 * SECOND, "{took}");
    assert!(matches!(error(&mut world, 0, client), Some(Errno::ETIMEDOUT | Errno::EHOSTUNREACH)));
}

#[test]
fn what_cannot_be_reached_is_said_at_once() {
    let mut world = World::new(1);
    for (address, expected) in [
        ("1.1.1.1:80", Errno::ENETUNREACH),
        ("[2001::1]:80", Errno::ENETUNREACH),
        ("224.0.0.1:80", Errno::ENETUNREACH),
        ("10.0.0.255:80", Errno::ENETUNREACH),
        ("10.0.0.9:0", Errno::ECONNREFUSED),
    ] {
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = world.socket(0, family, Kind::Stream);
        assert_eq!(world.nodes[0].connect(socket, address), Err(expected), "{address}");
        assert_eq!(world.nodes[0].close(socket), Ok(()));
    }
    let socket = world.socket(0, Family::V4, Kind::Stream);
    assert_eq!(world.nodes[0].connect(socket, "[::1]:80".parse().unwrap()), Err(Errno::EAFNOSUPPORT));
    world.nodes[0].close(socket).unwrap();
    assert_eq!(world.nodes[0].close(socket), Err(Errno::EBADF));
    world.assert_nothing_left(0);
}

#[test]
fn an_unconnected_stream_is_hung_up_and_says_so() {
    let mut world = World::new(1);
    let socket = world.socket(0, Family::V4, Kind::Stream);
    assert_eq!(world.readiness(0, socket), Readiness { write: true, hang_up: true, ..Readiness::default() });
    assert_eq!(world.nodes[0].send(socket, b"x", None), Err(Errno::EPIPE));
    assert_eq!(world.receive(0, socket), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].remote(socket), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].shutdown(socket, crate::Shutdown::Both), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].accept(socket, 0), Err(Errno::EINVAL));
    assert_eq!(world.nodes[0].local(socket), Ok("0.0.0.0:0".parse().unwrap()));
}
