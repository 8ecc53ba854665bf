//! Datagrams that are delivered.
//!
//! A datagram is received as a whole, with its sender's address. The rows cover datagrams of all sizes,
//! truncation by a small buffer, peeking, the order, connected sockets (which receive only from their peer),
//! and full receive buffers.

use std::io;
use std::net::UdpSocket;

use crate::record::Transcript;
use crate::support::{IpVersion, receive, receive_from, settle};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 20] = [
    ("to_and_from", Check::PerVersion(to_and_from)),
    ("connected", Check::PerVersion(connected)),
    ("empty", Check::PerVersion(empty)),
    ("truncated", Check::PerVersion(truncated)),
    ("into_nothing", Check::PerVersion(into_nothing)),
    ("peek", Check::PerVersion(peek)),
    ("peek_truncated", Check::PerVersion(peek_truncated)),
    ("peek_from", Check::PerVersion(peek_from)),
    ("order", Check::PerVersion(order)),
    ("largest", Check::PerVersion(largest)),
    ("of_every_size", Check::PerVersion(of_every_size)),
    ("too_many", Check::PerVersion(too_many)),
    ("others_are_ignored", Check::PerVersion(others_are_ignored)),
    ("queued_before_connecting", Check::PerVersion(queued_before_connecting)),
    ("connected_gets_its_own", Check::PerVersion(connected_gets_its_own)),
    ("reconnected", Check::PerVersion(reconnected)),
    ("disconnected", Check::PerVersion(disconnected)),
    ("source_address", Check::PerVersion(source_address)),
    ("clone", Check::PerVersion(clone)),
    ("to_any", Check::PerVersion(to_any)),
];

fn to_and_from(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let ((one, one_address), (other, other_address)) = (ip.datagrams()?, ip.datagrams()?);
    record.add("send", one.send_to(b"question", other_address));
    let (question, sender) = receive_from(&other)?;
    record.add("received", question);
    record.add("from", Ok::<_, io::Error>(sender));
    record.add("it is the sender's", sender == one_address);
    record.add("answer", other.send_to(b"answer", sender));
    record.add("received", receive(&one));
    Ok(())
}

fn connected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    record.add("send", one.send(b"hello"));
    record.add("received", receive(&other));
    record.add("peer", one.peer_addr());
    record.add("it is the other's", one.peer_addr()? == other.local_addr()?);
    Ok(())
}

fn empty(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    record.add("send", one.send(b""));
    record.add("send", one.send(b"next"));
    record.add("received", receive_from(&other));
    record.add("received", receive(&other));
    Ok(())
}

/// Bytes that do not fit into the buffer are lost.
fn truncated(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"abcdefgh")?;
    one.send(b"next")?;
    let mut three = [0; 3];
    record.add("size", other.recv(&mut three));
    record.add("received", three.to_vec());
    record.add("then", receive(&other));
    Ok(())
}

fn into_nothing(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"lost")?;
    one.send(b"next")?;
    record.add("size", other.recv_from(&mut []).map(|(size, _)| size));
    record.add("then", receive(&other));
    Ok(())
}

fn peek(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"first")?;
    one.send(b"second")?;
    let mut buffer = [0; 64];
    record.add("peek", other.peek(&mut buffer));
    record.add("peek again", other.peek(&mut buffer));
    record.add("received", receive(&other));
    record.add("peek", other.peek(&mut buffer));
    record.add("received", receive(&other));
    Ok(())
}

fn peek_truncated(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"abcdef")?;
    let mut two = [0; 2];
    record.add("peek", other.peek(&mut two));
    record.add("seen", two.to_vec());
    record.add("peek into nothing", other.peek(&mut []));
    record.add("received", receive(&other));
    Ok(())
}

fn peek_from(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let ((one, one_address), (other, other_address)) = (ip.datagrams()?, ip.datagrams()?);
    one.send_to(b"hello", other_address)?;
    let mut buffer = [0; 64];
    let (size, sender) = other.peek_from(&mut buffer)?;
    record.add("peek", size);
    record.add("sender", sender == one_address);
    record.add("received", receive(&other));
    Ok(())
}

fn order(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    for number in 0..50_u8 {
        one.send(&[number])?;
    }
    let numbers: Vec<u8> = (0..50).map(|_| receive(&other)).collect::<io::Result<Vec<_>>>()?.concat();
    record.add("in order", numbers.iter().copied().eq(0..50));
    Ok(())
}

/// Sends a datagram of `size` bytes. Returns true if it arrived unchanged.
fn pass(one: &UdpSocket, other: &UdpSocket, size: usize) -> io::Result<bool> {
    let sent = crate::support::pattern(7, size);
    one.send(&sent)?;
    let mut buffer = vec![0; 65_536];
    let received = other.recv(&mut buffer)?;
    Ok(buffer.split_at(received).0 == sent)
}

fn largest(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    // The 16-bit length of UDP counts its own header (RFC 768), that of IPv4 both headers.
    let size = match ip {
        IpVersion::V4 => 65_507,
        IpVersion::V6 => 65_527,
    };
    record.add("largest", pass(&one, &other, size));
    record.add("larger", one.send(&vec![0; size + 1]));
    record.add("much larger", one.send(&vec![0; 1 << 20]));
    record.add("works still", pass(&one, &other, 1));
    Ok(())
}

fn of_every_size(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let sizes = [1, 2, 64, 1_452, 1_453, 1_472, 1_473, 1_500, 2_048, 8_972, 9_000, 16_384, 32_768, 65_000];
    let mut right = 0;
    for size in sizes {
        right += usize::from(pass(&one, &other, size)?);
    }
    record.add("unchanged of 14", right);
    Ok(())
}

/// The receive queue is bounded; further datagrams are dropped silently.
fn too_many(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let block = [0; 1024];
    let sent: usize = (0..2_000).map(|_| usize::from(one.send(&block).is_ok())).sum();
    settle();
    other.set_nonblocking(true)?;
    let mut buffer = [0; 2048];
    let mut received = 0;
    while other.recv(&mut buffer).is_ok() {
        received += 1;
    }
    record.add("sent", sent);
    record.add("more than 50 arrived", received > 50);
    record.add("some were lost", received < 2_000);
    one.send(b"room again")?;
    settle();
    record.add("then", receive(&other));
    Ok(())
}

fn others_are_ignored(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let (stranger, _) = ip.datagrams()?;
    record.add("stranger sends", stranger.send_to(b"hello?", other.local_addr()?));
    settle();
    one.send(b"hello")?;
    record.add("received", receive(&other));
    other.set_nonblocking(true)?;
    record.add("then", receive(&other));
    Ok(())
}

fn queued_before_connecting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (receiver, address) = ip.datagrams()?;
    let ((stranger, _), (friend, friend_address)) = (ip.datagrams()?, ip.datagrams()?);
    stranger.send_to(b"early", address)?;
    settle();
    receiver.connect(friend_address)?;
    friend.send_to(b"late", address)?;
    record.add("first", receive(&receiver));
    record.add("second", receive(&receiver));
    Ok(())
}

/// If two sockets are bound to a port, the socket that is connected to the sender receives the sender's
/// datagrams.
fn connected_gets_its_own(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let open = ip.datagram_socket()?;
    sys::set_option(&open, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&open, ip.any(0))?;
    let open = UdpSocket::from(open);
    let port = open.local_addr()?.port();
    let private = ip.datagram_socket()?;
    sys::set_option(&private, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&private, ip.any(port))?;
    let private = UdpSocket::from(private);
    let ((friend, friend_address), (stranger, _)) = (ip.datagrams()?, ip.datagrams()?);
    private.connect(friend_address)?;
    friend.send_to(b"friend", ip.loopback(port))?;
    stranger.send_to(b"stranger", ip.loopback(port))?;
    record.add("connected", receive(&private));
    record.add("open", receive(&open));
    Ok(())
}

fn reconnected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let (third, third_address) = ip.datagrams()?;
    record.add("connect", one.connect(third_address));
    one.send(b"hello")?;
    record.add("received", receive(&third));
    third.send_to(b"answer", one.local_addr()?)?;
    record.add("answered", receive(&one));
    drop(other);
    record.add("peer", one.peer_addr()? == third_address);
    Ok(())
}

/// After a disconnect, a socket keeps a port that it was bound to, but loses an ephemeral port.
fn disconnected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (other, other_address) = ip.datagrams()?;
    let own = ip.silent_datagram_address()?;
    let one = UdpSocket::bind(own)?;
    one.connect(other_address)?;
    record.add("disconnect", sys::connect(&one, None));
    record.add("peer", one.peer_addr());
    record.add("send", one.send(b"a"));
    record.add("local stays", one.local_addr()? == own);
    let (stranger, _) = ip.datagrams()?;
    stranger.send_to(b"now welcome", own)?;
    record.add("received", receive(&one));
    record.add("send to", one.send_to(b"by address", other_address));
    record.add("received", receive(&other));
    let (any_port, _) = ip.datagrams()?;
    any_port.connect(other_address)?;
    sys::connect(&any_port, None)?;
    record.add("port of the system's choice", any_port.local_addr());
    Ok(())
}

/// A socket bound to the unspecified address gets a local address when it connects.
fn source_address(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = UdpSocket::bind(ip.any(0))?;
    let (receiver, address) = ip.datagrams()?;
    record.add("before", socket.local_addr());
    socket.send_to(b"a", address)?;
    record.add("sender", receive_from(&receiver)?.1 == ip.loopback(socket.local_addr()?.port()));
    record.add("after sending", socket.local_addr());
    socket.connect(address)?;
    record.add("connected", socket.local_addr());
    sys::connect(&socket, None)?;
    record.add("disconnected", socket.local_addr());
    Ok(())
}

fn clone(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let copy = other.try_clone()?;
    one.send(b"one")?;
    one.send(b"two")?;
    record.add("original", receive(&other));
    record.add("clone", receive(&copy));
    drop(other);
    one.send(b"three")?;
    record.add("clone alone", receive(&copy));
    record.add("clone sends", copy.send(b"four"));
    record.add("received", receive(&one));
    Ok(())
}

fn to_any(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (receiver, address) = ip.datagrams()?;
    let (sender, _) = ip.datagrams()?;
    record.add("send", sender.send_to(b"hello", ip.any(address.port())));
    record.add("received", receive_from(&receiver));
    Ok(())
}
