//! Which addresses a socket may have, and when one is taken.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use crate::notes::Notes;
use crate::support::{Ip, read, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 19] = [
    ("foreign", Check::Versions(foreign)),
    ("listener_twice", Check::Versions(listener_twice)),
    ("datagrams_twice", Check::Versions(datagrams_twice)),
    ("streams_and_datagrams", Check::Versions(streams_and_datagrams)),
    ("any_and_one", Check::Versions(any_and_one)),
    ("two_addresses", Check::Plain(two_addresses)),
    ("twice_in_a_row", Check::Versions(twice_in_a_row)),
    ("again_after_connections", Check::Versions(again_after_connections)),
    ("again_without_reuse", Check::Versions(again_without_reuse)),
    ("beside_a_connection", Check::Versions(beside_a_connection)),
    ("not_listening_yet", Check::Versions(not_listening_yet)),
    ("reused_datagrams", Check::Versions(reused_datagrams)),
    ("same_socket_twice", Check::Versions(same_socket_twice)),
    ("of_the_other_version", Check::Plain(of_the_other_version)),
    ("group_address", Check::Versions(group_address)),
    ("broadcast_address", Check::Plain(broadcast_address)),
    ("listen_unbound", Check::Versions(listen_unbound)),
    ("listen_connected", Check::Versions(listen_connected)),
    ("accept_without_listening", Check::Versions(accept_without_listening)),
];

fn foreign(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("listener", TcpListener::bind(ip.foreign(0)).map(drop));
    notes.add("datagrams", UdpSocket::bind(ip.foreign(0)).map(drop));
    Ok(())
}

fn listener_twice(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address) = ip.listener()?;
    // std sets SO_REUSEADDR, which does not help against one that listens.
    notes.add("second", TcpListener::bind(address).map(drop));
    let socket = ip.stream_socket()?;
    notes.add("without reuse", sys::bind(&socket, address));
    Ok(())
}

fn datagrams_twice(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, address) = ip.datagrams()?;
    notes.add("second", UdpSocket::bind(address).map(drop));
    drop(socket);
    notes.add("after close", UdpSocket::bind(address).map(drop));
    Ok(())
}

fn streams_and_datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address) = ip.listener()?;
    notes.add("datagrams at a listener's port", UdpSocket::bind(address).map(drop));
    Ok(())
}

fn any_and_one(notes: &mut Notes, ip: Ip) -> Outcome {
    let any = TcpListener::bind(ip.any(0))?;
    let port = any.local_addr()?.port();
    notes.add("one after any", TcpListener::bind(ip.loopback(port)).map(drop));
    let (_one, address) = ip.listener()?;
    notes.add("any after one", TcpListener::bind(ip.any(address.port())).map(drop));
    let any = UdpSocket::bind(ip.any(0))?;
    let port = any.local_addr()?.port();
    notes.add("datagrams: one after any", UdpSocket::bind(ip.loopback(port)).map(drop));
    Ok(())
}

/// The same port at different addresses.
fn two_addresses(notes: &mut Notes) -> Outcome {
    let (one, address) = Ip::V4.listener()?;
    let other = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), address.port()))?;
    let to_one = TcpStream::connect(address)?;
    let to_other = TcpStream::connect(other.local_addr()?)?;
    write(&to_one, b"one")?;
    write(&to_other, b"other")?;
    notes.add("one", read(&one.accept()?.0));
    notes.add("other", read(&other.accept()?.0));
    Ok(())
}

fn twice_in_a_row(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    drop(listener);
    notes.add("listener", TcpListener::bind(address).map(drop));
    notes.add("listener", TcpListener::bind(address).map(drop));
    Ok(())
}

/// A listener at `address`, without what std sets.
fn listener_without_reuse(ip: Ip, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = ip.stream_socket()?;
    sys::bind(&socket, address)?;
    sys::listen(&socket, 1)?;
    Ok(socket)
}

/// A server that is started again finds its port free, though its old connections are not forgotten.
fn again_after_connections(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    // Who closes first is the one that remembers.
    drop(server);
    notes.add("client reads", read(&client));
    drop((client, listener));
    settle();
    let again = TcpListener::bind(address);
    notes.add("again", again.as_ref().map(drop).map_err(|error| io::Error::from(error.kind())));
    let client = TcpStream::connect(address)?;
    write(&client, b"works")?;
    notes.add("server reads", read(&again?.accept()?.0));
    Ok(())
}

fn again_without_reuse(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = listener_without_reuse(ip, ip.loopback(0))?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    let client = TcpStream::connect(address)?;
    drop(listener.accept()?);
    notes.add("client reads", read(&client));
    drop((client, listener));
    settle();
    notes.add("again", listener_without_reuse(ip, address).map(drop));
    notes.add("with reuse", TcpListener::bind(address).map(drop));
    Ok(())
}

/// The port of a connection that lives on after its listener.
fn beside_a_connection(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    drop(listener);
    notes.add("without reuse", listener_without_reuse(ip, address).map(drop));
    let again = TcpListener::bind(address)?;
    let second = TcpStream::connect(address)?;
    write(&second, b"new")?;
    write(&client, b"old")?;
    notes.add("new", read(&again.accept()?.0));
    notes.add("old", read(&server));
    Ok(())
}

fn not_listening_yet(notes: &mut Notes, ip: Ip) -> Outcome {
    let [one, other] = [ip.stream_socket()?, ip.stream_socket()?];
    for socket in [&one, &other] {
        sys::set_option(socket, sys::REUSE_ADDRESS, 1)?;
    }
    sys::bind(&one, ip.loopback(0))?;
    let one = TcpListener::from(one);
    let address = one.local_addr()?;
    notes.add("connect to it", TcpStream::connect(address).map(drop));
    notes.add("second bind", sys::bind(&other, address));
    notes.add("first listens", sys::listen(&one, 1));
    notes.add("second listens", sys::listen(&other, 1));
    Ok(())
}

fn reused_datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    let [one, other] = [ip.datagram_socket()?, ip.datagram_socket()?];
    sys::set_option(&one, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&one, ip.loopback(0))?;
    let address = UdpSocket::from(sys::dup(&one)?).local_addr()?;
    notes.add("if only the first agrees", sys::bind(&other, address));
    sys::set_option(&other, sys::REUSE_ADDRESS, 1)?;
    notes.add("if both agree", sys::bind(&other, address));
    Ok(())
}

fn same_socket_twice(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = ip.stream_socket()?;
    notes.add("bind", sys::bind(&socket, ip.loopback(0)));
    notes.add("again", sys::bind(&socket, ip.loopback(0)));
    let socket = ip.datagram_socket()?;
    notes.add("datagrams", sys::bind(&socket, ip.loopback(0)));
    notes.add("again", sys::bind(&socket, ip.loopback(0)));
    let (client, _server) = ip.pair()?;
    notes.add("connected", sys::bind(&client, ip.loopback(0)));
    Ok(())
}

fn of_the_other_version(notes: &mut Notes) -> Outcome {
    notes.add("v4 socket", sys::bind(Ip::V4.stream_socket()?, Ip::V6.loopback(0)));
    notes.add("v6 socket", sys::bind(Ip::V6.stream_socket()?, Ip::V4.loopback(0)));
    notes.add("v4 datagrams", sys::bind(Ip::V4.datagram_socket()?, Ip::V6.loopback(0)));
    notes.add("v6 datagrams", sys::bind(Ip::V6.datagram_socket()?, Ip::V4.loopback(0)));
    Ok(())
}

fn group_address(notes: &mut Notes, ip: Ip) -> Outcome {
    let group: SocketAddr = match ip {
        Ip::V4 => ([239, 1, 2, 3], 0).into(),
        Ip::V6 => "[ff15::123]:0".parse().map_err(io::Error::other)?,
    };
    notes.add("datagrams", UdpSocket::bind(group).and_then(|socket| socket.local_addr()));
    Ok(())
}

fn broadcast_address(notes: &mut Notes) -> Outcome {
    notes.add("datagrams", UdpSocket::bind((Ipv4Addr::BROADCAST, 0)).and_then(|socket| socket.local_addr()));
    notes.add("loopback's", UdpSocket::bind("127.255.255.255:0").and_then(|socket| socket.local_addr()));
    Ok(())
}

fn listen_unbound(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = ip.stream_socket()?;
    notes.add("listen", sys::listen(&socket, 1));
    let listener = TcpListener::from(socket);
    notes.add("local", listener.local_addr());
    let client = TcpStream::connect(ip.loopback(listener.local_addr()?.port()))?;
    notes.add("accept", listener.accept()?.1 == client.local_addr()?);
    Ok(())
}

fn listen_connected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("listen", sys::listen(&client, 1));
    notes.add("datagrams", sys::listen(ip.datagram_socket()?, 1));
    Ok(())
}

fn accept_without_listening(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpListener::from(ip.stream_socket()?);
    notes.add("fresh", socket.accept().map(drop));
    sys::bind(&socket, ip.loopback(0))?;
    notes.add("bound", socket.accept().map(drop));
    let (client, _server) = ip.pair()?;
    notes.add("connected", TcpListener::from(OwnedFd::from(client)).accept().map(drop));
    notes.add("datagrams", TcpListener::from(ip.datagram_socket()?).accept().map(drop));
    Ok(())
}
