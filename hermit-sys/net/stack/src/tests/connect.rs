//! Connect: success, refusal and timeouts.
//!
//! `connect` never blocks: it returns `EINPROGRESS`, and the readiness of the socket reports the end. The
//! tests check the result for each answer of the peer, for ICMP errors, and without an answer, and that a
//! socket may be connected again after a failure.

use crate::testing::{MILLISECOND, SECOND, World, v4, v6};
use crate::{Errno, Family, Kind, OptionName, Readiness};
use core::net::SocketAddr;

fn error(world: &mut World, node: usize, socket: crate::SocketId) -> Option<Errno> {
    let number = world.nodes[node].option(socket, OptionName::Error).unwrap();
    (number != 0).then(|| Errno::from_number(number.cast_signed()))
}

const FAILED: Readiness =
    Readiness { read: true, write: true, hang_up: true, read_hang_up: true, error: true };

#[test]
fn connect_works_with_both_families_and_the_loopback() {
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
        // Programs with non-blocking sockets call `connect` twice.
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 80)), Ok(()));
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 80)), Err(Errno::EISCONN));
    }
}

#[test]
fn connect_to_unused_port_is_refused() {
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
        // As in Linux, the failure is reported once, and the socket can be connected again.
        let listener = world.listen(1, 81, 1);
        let again = world.nodes[node].connect(client, SocketAddr::new(address, 81));
        assert_eq!(again, Err(Errno::ECONNABORTED));
        assert_eq!(world.receive(node, client), Err(Errno::ENOTCONN));
        assert_eq!(world.nodes[node].connect(client, SocketAddr::new(address, 81)), Err(Errno::EINPROGRESS));
        assert!(world.run_until(SECOND, |world| world.readiness(1, listener).read));
        world.nodes[node].close(client).unwrap();
        world.nodes[1].close(listener).unwrap();
        world.run(2 * SECOND);
        world.assert_nothing_left(0);
    }
}

#[test]
fn connect_to_absent_neighbor_fails_after_3_s() {
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
fn connect_to_silent_peer_times_out() {
    let (mut world, ..) = World::pair();
    world.wire.borrow_mut().is_cut = true;
    let start = world.now;
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    assert!(world.run_until(200 * SECOND, |world| world.readiness(0, client).error));
    let took = world.now - start;
    // The resolution of the neighbor fails as well, but only after the neighbor is probed again.
    assert!(took <= 128 * SECOND, "{took}");
    assert!(matches!(error(&mut world, 0, client), Some(Errno::ETIMEDOUT | Errno::EHOSTUNREACH)));
}

#[test]
fn connect_without_route_fails_at_once() {
    let mut world = World::new(1);
    for (address, expected) in [
        ("1.1.1.1:80", Errno::ENETUNREACH),
        ("[2001::1]:80", Errno::ENETUNREACH),
        ("224.0.0.1:80", Errno::ENETUNREACH),
        ("10.0.0.255:80", Errno::ENETUNREACH),
        ("127.255.255.255:80", Errno::ENETUNREACH),
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
fn unconnected_stream_reports_pollhup_and_enotconn() {
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

#[test]
fn connect_reports_refusal_once() {
    let mut world = World::new(1);
    let address = "127.0.0.1:81".parse().unwrap();
    let client = world.start(0, address);
    world.run(MILLISECOND);
    assert_eq!(world.nodes[0].connect(client, address), Err(Errno::ECONNREFUSED));
    assert_eq!(error(&mut world, 0, client), None);
    assert_eq!(world.receive(0, client), Err(Errno::ENOTCONN));
    assert_eq!(world.nodes[0].connect(client, address), Err(Errno::EINPROGRESS));
    world.nodes[0].close(client).unwrap();
    world.assert_nothing_left(0);
}

#[test]
fn shutdown_aborts_connect() {
    let mut world = World::new(1);
    let address = SocketAddr::new(v4(9), 80);
    let client = world.start(0, address);
    world.nodes[0].shutdown(client, crate::Shutdown::Both).unwrap();
    assert_eq!(world.nodes[0].connect(client, address), Err(Errno::ECONNRESET));
    assert_eq!(world.nodes[0].connect(client, address), Err(Errno::EINPROGRESS));
}

#[test]
fn connect_after_reported_success_fails_with_eisconn() {
    let (mut world, client, server) = World::pair();
    let address = SocketAddr::new(v4(1), 80);
    assert_eq!(world.nodes[0].connect(client, address), Ok(()));
    world.nodes[1].close_now(server).unwrap();
    assert!(world.run_until(SECOND, |world| world.readiness(0, client).error));
    assert_eq!(world.nodes[0].connect(client, address), Err(Errno::EISCONN));
    assert_eq!(error(&mut world, 0, client), Some(Errno::ECONNRESET));
}

#[test]
fn socket_connects_to_itself() {
    for address in ["127.0.0.1:80", "[::1]:80", "10.0.0.1:80"] {
        let mut world = World::new(1);
        let address: SocketAddr = address.parse().unwrap();
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = world.socket(0, family, Kind::Stream);
        world.nodes[0].bind(socket, address).unwrap();
        assert_eq!(world.nodes[0].connect(socket, address), Err(Errno::EINPROGRESS));
        assert!(world.run_until(SECOND, |world| world.readiness(0, socket).write), "{address}");
        assert_eq!(world.nodes[0].connect(socket, address), Ok(()));
        assert_eq!(world.nodes[0].remote(socket), Ok(address));
        let bytes = crate::testing::pattern(if cfg!(miri) { 10_000 } else { 100_000 });
        assert!(world.transfer((0, socket), (0, socket), &bytes, SECOND) == bytes);
        world.nodes[0].close(socket).unwrap();
        world.run(SECOND);
        world.assert_nothing_left(0);
    }
}

#[test]
fn ephemeral_port_is_released_when_connect_fails() {
    let mut world = World::new(1);
    for (own, stays) in [("127.0.0.1:0", false), ("127.0.0.1:90", true)] {
        let socket = world.socket(0, Family::V4, Kind::Stream);
        world.nodes[0].bind(socket, own.parse().unwrap()).unwrap();
        let remote = "127.0.0.1:81".parse().unwrap();
        assert_eq!(world.nodes[0].connect(socket, remote), Err(Errno::EINPROGRESS));
        world.run(MILLISECOND);
        assert_eq!(world.nodes[0].connect(socket, remote), Err(Errno::ECONNREFUSED));
        assert_eq!(world.nodes[0].local(socket), Ok(own.parse().unwrap()));
        let again = world.nodes[0].bind(socket, own.parse().unwrap());
        assert_eq!(again, if stays { Err(Errno::EINVAL) } else { Ok(()) });
        world.nodes[0].close(socket).unwrap();
    }
    assert!((1..=u16::MAX).all(|port| world.nodes[0].layers.tcp_ports.is_unused(port)));
}

#[test]
fn loopback_syn_to_time_wait_is_retransmitted_at_once() {
    let mut world = World::new(1);
    let listener = world.listen(0, 80, 1);
    for _ in 0..if cfg!(miri) { 10 } else { 800 } {
        let start = world.now;
        let (client, server) = world.connect(0, "127.0.0.1:80".parse().unwrap(), (0, listener));
        assert!(world.now - start < SECOND / 2);
        // The side that closes first is in TIME-WAIT.
        world.nodes[0].close(server).unwrap();
        assert!(world.run_until(SECOND, |world| world.readiness(0, client).read_hang_up));
        world.nodes[0].close(client).unwrap();
        world.run(MILLISECOND);
    }
}

#[test]
fn syn_to_time_wait_is_retransmitted_at_once() {
    let mut world = World::new(2);
    let listener = world.listen(1, 80, 1);
    let (own, remote) = (SocketAddr::new(v4(0), 4000), SocketAddr::new(v4(1), 80));
    // Half of the initial sequence numbers are below the number in the peer's record.
    for _ in 0..if cfg!(miri) { 6 } else { 20 } {
        let client = world.socket(0, Family::V4, Kind::Stream);
        world.nodes[0].bind(client, own).unwrap();
        assert_eq!(world.nodes[0].connect(client, remote), Err(Errno::EINPROGRESS));
        let start = world.now;
        assert!(world.run_until(2 * SECOND, |world| world.readiness(1, listener).read));
        assert!(world.now - start < SECOND / 10);
        let (server, _) = world.nodes[1].accept(listener, 0).unwrap();
        // The side that closes first is in TIME-WAIT.
        world.nodes[1].close(server).unwrap();
        assert!(world.run_until(SECOND, |world| world.readiness(0, client).read_hang_up));
        world.nodes[0].close(client).unwrap();
        world.run(MILLISECOND);
    }
}

/// Sends a host an ICMP error about one of its packets. The TCP header of the packet begins with the ports
/// and `seq`.
fn send_icmp_error(
    (world, node): (&mut World, usize),
    (ours, theirs): (SocketAddr, SocketAddr),
    (kind, code, mtu): (u8, u8, u16),
    seq: u32,
) {
    use crate::testing::{header, mac};
    use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol};
    let (source, destination) = (ours.ip(), theirs.ip());
    let quoted = header(source, destination, IpProtocol::Tcp, 20);
    let protocol = if source.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
    let size = 8 + quoted.size() + 20;
    let router = if source.is_ipv4() { v4(1 - node) } else { v6(1 - node) };
    world.inject(1 - node, mac(node), header(router, source, protocol, size), |bytes| {
        bytes.fill(0);
        (bytes[0], bytes[1]) = (kind, code);
        bytes[6..8].copy_from_slice(&mtu.to_be_bytes());
        let segment = quoted.write(&mut bytes[8..]);
        segment[0..2].copy_from_slice(&ours.port().to_be_bytes());
        segment[2..4].copy_from_slice(&theirs.port().to_be_bytes());
        segment[4..8].copy_from_slice(&seq.to_be_bytes());
        match (router, source) {
            (core::net::IpAddr::V6(router), core::net::IpAddr::V6(source)) => {
                Icmpv6Packet::new_unchecked(bytes).fill_checksum(&router, &source);
            }
            _ => Icmpv4Packet::new_unchecked(bytes).fill_checksum(),
        }
    });
}

/// Begins to connect to a host that does not answer; returns the socket, its addresses, and the number of its
/// SYN.
fn start_unanswered(to: core::net::IpAddr) -> (World, crate::SocketId, (SocketAddr, SocketAddr), u32) {
    let (mut world, ..) = World::pair();
    // The neighbor is known.
    let known = world.start(0, SocketAddr::new(to, 81));
    world.run(SECOND);
    world.nodes[0].close(known).unwrap();
    world.wire.borrow_mut().is_cut = true;
    let remote = SocketAddr::new(to, 80);
    let client = world.start(0, remote);
    world.nodes[0].poll(world.now);
    world.wire.borrow_mut().is_cut = false;
    let local = world.nodes[0].local(client).unwrap();
    let slot = world.nodes[0].layers.tcp.slot(client.key()).unwrap();
    let (next, _) = world.nodes[0].layers.tcp.connection(slot).unwrap().numbers();
    (world, client, (local, remote), next.0.cast_unsigned().wrapping_sub(1))
}

/// RFC 1122 §4.2.3.9, RFC 5461 §3: as in Linux, an error about the SYN is the result of `connect`. An error
/// that quotes another number is ignored (RFC 5927 §4.1).
#[test]
fn icmp_error_about_the_syn_is_the_result_of_connect() {
    let v4 = [
        (3, 0, Errno::ENETUNREACH),
        (3, 1, Errno::EHOSTUNREACH),
        (3, 2, Errno::ENOPROTOOPT),
        (3, 3, Errno::ECONNREFUSED),
        (3, 13, Errno::EHOSTUNREACH),
        (11, 0, Errno::EHOSTUNREACH),
        (12, 0, Errno::EPROTO),
    ];
    let v6_errors = [
        (1, 0, Errno::ENETUNREACH),
        (1, 1, Errno::EACCES),
        (1, 3, Errno::EHOSTUNREACH),
        (1, 4, Errno::ECONNREFUSED),
        (3, 0, Errno::EHOSTUNREACH),
        (4, 0, Errno::EPROTO),
    ];
    let all = v4.map(|error| (crate::testing::v4(1), error)).into_iter();
    for (to, (kind, code, expected)) in all.chain(v6_errors.map(|error| (v6(1), error))) {
        let (mut world, client, ends, syn) = start_unanswered(to);
        for forged in [syn.wrapping_sub(1), syn.wrapping_add(1)] {
            send_icmp_error((&mut world, 0), ends, (kind, code, 0), forged);
            world.run(MILLISECOND);
            assert_eq!(world.readiness(0, client), Readiness::default(), "{kind} {code}");
        }
        send_icmp_error((&mut world, 0), ends, (kind, code, 0), syn);
        world.run(MILLISECOND);
        assert_eq!(world.readiness(0, client), FAILED, "{kind} {code}");
        assert_eq!(error(&mut world, 0, client), Some(expected), "{kind} {code}");
    }
}

/// RFC 1191 §6.3, RFC 8201 §4: a path MTU reported about the SYN is used, and `connect` continues.
#[test]
fn packet_too_big_about_the_syn_is_no_error() {
    for (to, message, size) in [(v4(1), (3, 4, 1000), 1000), (v6(1), (2, 0, 1300), 1300)] {
        let (mut world, client, ends, syn) = start_unanswered(to);
        send_icmp_error((&mut world, 0), ends, message, syn);
        assert!(world.run_until(5 * SECOND, |world| world.readiness(0, client).write));
        assert!(!world.readiness(0, client).error);
        world.wire.borrow_mut().log = Some(std::vec![]);
        world.nodes[0].send(client, &[1; 4000], None).unwrap();
        world.run(SECOND);
        let log = world.wire.borrow_mut().log.take().unwrap();
        assert_eq!(log.iter().map(std::vec::Vec::len).max(), Some(14 + size));
    }
}

/// As in Linux, an error about the SYN-ACK ends the half-open connection at once.
#[test]
fn icmp_error_about_the_syn_ack_ends_the_half_open_connection() {
    let mut world = World::new(2);
    world.listen(1, 80, 8);
    let client = world.start(0, SocketAddr::new(v4(1), 80));
    assert!(world.run_until(SECOND, |world| !world.nodes[1].layers.tcp.half_open().is_empty()));
    let ends = (SocketAddr::new(v4(1), 80), world.nodes[0].local(client).unwrap());
    let connection = world.nodes[1].layers.tcp.connection_from(ends.1.port()).unwrap();
    let next = connection.numbers().0.0.cast_unsigned();
    for (number, left) in [(next, 1), (next.wrapping_sub(1), 0)] {
        send_icmp_error((&mut world, 1), ends, (3, 1, 0), number);
        world.now += 1;
        world.wire.borrow_mut().now = world.now;
        world.nodes[1].poll(world.now);
        assert_eq!(world.nodes[1].layers.tcp.half_open().len(), left);
    }
}
