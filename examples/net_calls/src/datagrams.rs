//! Datagrams that arrive.

use std::io;
use std::net::UdpSocket;

use crate::notes::Notes;
use crate::support::{Ip, receive, receive_from, settle};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 20] = [
    ("to_and_from", Check::Versions(to_and_from)),
    ("connected", Check::Versions(connected)),
    ("empty", Check::Versions(empty)),
    ("truncated", Check::Versions(truncated)),
    ("into_nothing", Check::Versions(into_nothing)),
    ("peek", Check::Versions(peek)),
    ("peek_truncated", Check::Versions(peek_truncated)),
    ("peek_from", Check::Versions(peek_from)),
    ("order", Check::Versions(order)),
    ("largest", Check::Versions(largest)),
    ("of_every_size", Check::Versions(of_every_size)),
    ("too_many", Check::Versions(too_many)),
    ("others_are_ignored", Check::Versions(others_are_ignored)),
    ("queued_before_connecting", Check::Versions(queued_before_connecting)),
    ("connected_gets_its_own", Check::Versions(connected_gets_its_own)),
    ("reconnected", Check::Versions(reconnected)),
    ("disconnected", Check::Versions(disconnected)),
    ("source_address", Check::Versions(source_address)),
    ("clone", Check::Versions(clone)),
    ("to_any", Check::Versions(to_any)),
];

fn to_and_from(notes: &mut Notes, ip: Ip) -> Outcome {
    let ((one, one_address), (other, other_address)) = (ip.datagrams()?, ip.datagrams()?);
    notes.add("send", one.send_to(b"question", other_address));
    let (question, sender) = receive_from(&other)?;
    notes.add("received", question);
    notes.add("from", Ok::<_, io::Error>(sender));
    notes.add("it is the sender's", sender == one_address);
    notes.add("answer", other.send_to(b"answer", sender));
    notes.add("received", receive(&one));
    Ok(())
}

fn connected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    notes.add("send", one.send(b"hello"));
    notes.add("received", receive(&other));
    notes.add("peer", one.peer_addr());
    notes.add("it is the other's", one.peer_addr()? == other.local_addr()?);
    Ok(())
}

fn empty(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    notes.add("send", one.send(b""));
    notes.add("send", one.send(b"next"));
    notes.add("received", receive_from(&other));
    notes.add("received", receive(&other));
    Ok(())
}

/// What does not fit is lost.
fn truncated(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"abcdefgh")?;
    one.send(b"next")?;
    let mut three = [0; 3];
    notes.add("size", other.recv(&mut three));
    notes.add("received", three.to_vec());
    notes.add("then", receive(&other));
    Ok(())
}

fn into_nothing(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"lost")?;
    one.send(b"next")?;
    notes.add("size", other.recv_from(&mut []).map(|(size, _)| size));
    notes.add("then", receive(&other));
    Ok(())
}

fn peek(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"first")?;
    one.send(b"second")?;
    let mut buffer = [0; 64];
    notes.add("peek", other.peek(&mut buffer));
    notes.add("peek again", other.peek(&mut buffer));
    notes.add("received", receive(&other));
    notes.add("peek", other.peek(&mut buffer));
    notes.add("received", receive(&other));
    Ok(())
}

fn peek_truncated(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    one.send(b"abcdef")?;
    let mut two = [0; 2];
    notes.add("peek", other.peek(&mut two));
    notes.add("seen", two.to_vec());
    notes.add("peek into nothing", other.peek(&mut []));
    notes.add("received", receive(&other));
    Ok(())
}

fn peek_from(notes: &mut Notes, ip: Ip) -> Outcome {
    let ((one, one_address), (other, other_address)) = (ip.datagrams()?, ip.datagrams()?);
    one.send_to(b"hello", other_address)?;
    let mut buffer = [0; 64];
    let (size, sender) = other.peek_from(&mut buffer)?;
    notes.add("peek", size);
    notes.add("sender", sender == one_address);
    notes.add("received", receive(&other));
    Ok(())
}

fn order(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    for number in 0..50_u8 {
        one.send(&[number])?;
    }
    let numbers: Vec<u8> = (0..50).map(|_| receive(&other)).collect::<io::Result<Vec<_>>>()?.concat();
    notes.add("in order", numbers.iter().copied().eq(0..50));
    Ok(())
}

/// The largest size, and how many bytes of it came through unchanged.
fn pass(one: &UdpSocket, other: &UdpSocket, size: usize) -> io::Result<bool> {
    let sent = crate::support::pattern(7, size);
    one.send(&sent)?;
    let mut buffer = vec![0; 65_536];
    let received = other.recv(&mut buffer)?;
    Ok(buffer.split_at(received).0 == sent)
}

fn largest(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    // RFC 768 has a length of 16 bits that counts its own header, and IPv4 one that counts both.
    let size = match ip {
        Ip::V4 => 65_507,
        Ip::V6 => 65_527,
    };
    notes.add("largest", pass(&one, &other, size));
    notes.add("larger", one.send(&vec![0; size + 1]));
    notes.add("much larger", one.send(&vec![0; 1 << 20]));
    notes.add("works still", pass(&one, &other, 1));
    Ok(())
}

fn of_every_size(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let sizes = [1, 2, 64, 1_452, 1_453, 1_472, 1_473, 1_500, 2_048, 8_972, 9_000, 16_384, 32_768, 65_000];
    let mut right = 0;
    for size in sizes {
        right += usize::from(pass(&one, &other, size)?);
    }
    notes.add("unchanged of 14", right);
    Ok(())
}

/// A queue is bounded; what does not fit is lost without a word.
fn too_many(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("sent", sent);
    notes.add("more than 50 arrived", received > 50);
    notes.add("some were lost", received < 2_000);
    one.send(b"room again")?;
    settle();
    notes.add("then", receive(&other));
    Ok(())
}

fn others_are_ignored(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let (stranger, _) = ip.datagrams()?;
    notes.add("stranger sends", stranger.send_to(b"hello?", other.local_addr()?));
    settle();
    one.send(b"hello")?;
    notes.add("received", receive(&other));
    other.set_nonblocking(true)?;
    notes.add("then", receive(&other));
    Ok(())
}

fn queued_before_connecting(notes: &mut Notes, ip: Ip) -> Outcome {
    let (receiver, address) = ip.datagrams()?;
    let ((stranger, _), (friend, friend_address)) = (ip.datagrams()?, ip.datagrams()?);
    stranger.send_to(b"early", address)?;
    settle();
    receiver.connect(friend_address)?;
    friend.send_to(b"late", address)?;
    notes.add("first", receive(&receiver));
    notes.add("second", receive(&receiver));
    Ok(())
}

/// Of two sockets at one port, the one that is connected to the sender gets what that sends.
fn connected_gets_its_own(notes: &mut Notes, ip: Ip) -> Outcome {
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
    notes.add("connected", receive(&private));
    notes.add("open", receive(&open));
    Ok(())
}

fn reconnected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let (third, third_address) = ip.datagrams()?;
    notes.add("connect", one.connect(third_address));
    one.send(b"hello")?;
    notes.add("received", receive(&third));
    third.send_to(b"answer", one.local_addr()?)?;
    notes.add("answered", receive(&one));
    drop(other);
    notes.add("peer", one.peer_addr()? == third_address);
    Ok(())
}

/// Without a peer again, a socket keeps the port that it asked for, and no other.
fn disconnected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (other, other_address) = ip.datagrams()?;
    let own = ip.silent_datagram_address()?;
    let one = UdpSocket::bind(own)?;
    one.connect(other_address)?;
    notes.add("disconnect", sys::connect(&one, None));
    notes.add("peer", one.peer_addr());
    notes.add("send", one.send(b"a"));
    notes.add("local stays", one.local_addr()? == own);
    let (stranger, _) = ip.datagrams()?;
    stranger.send_to(b"now welcome", own)?;
    notes.add("received", receive(&one));
    notes.add("send to", one.send_to(b"by address", other_address));
    notes.add("received", receive(&other));
    let (any_port, _) = ip.datagrams()?;
    any_port.connect(other_address)?;
    sys::connect(&any_port, None)?;
    notes.add("port of the system's choice", any_port.local_addr());
    Ok(())
}

/// A socket at any address gets the right one when it connects.
fn source_address(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = UdpSocket::bind(ip.any(0))?;
    let (receiver, address) = ip.datagrams()?;
    notes.add("before", socket.local_addr());
    socket.send_to(b"a", address)?;
    notes.add("sender", receive_from(&receiver)?.1 == ip.loopback(socket.local_addr()?.port()));
    notes.add("after sending", socket.local_addr());
    socket.connect(address)?;
    notes.add("connected", socket.local_addr());
    sys::connect(&socket, None)?;
    notes.add("disconnected", socket.local_addr());
    Ok(())
}

fn clone(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let copy = other.try_clone()?;
    one.send(b"one")?;
    one.send(b"two")?;
    notes.add("original", receive(&other));
    notes.add("clone", receive(&copy));
    drop(other);
    one.send(b"three")?;
    notes.add("clone alone", receive(&copy));
    notes.add("clone sends", copy.send(b"four"));
    notes.add("received", receive(&one));
    Ok(())
}

fn to_any(notes: &mut Notes, ip: Ip) -> Outcome {
    let (receiver, address) = ip.datagrams()?;
    let (sender, _) = ip.datagrams()?;
    notes.add("send", sender.send_to(b"hello", ip.any(address.port())));
    notes.add("received", receive_from(&receiver));
    Ok(())
}
