//! Binding: the addresses that a socket can be bound to, and addresses in use.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use crate::record::Transcript;
use crate::support::{IpVersion, read, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 19] = [
    ("foreign", Check::PerVersion(foreign)),
    ("listener_twice", Check::PerVersion(listener_twice)),
    ("datagrams_twice", Check::PerVersion(datagrams_twice)),
    ("streams_and_datagrams", Check::PerVersion(streams_and_datagrams)),
    ("any_and_one", Check::PerVersion(any_and_one)),
    ("two_addresses", Check::Once(two_addresses)),
    ("twice_in_a_row", Check::PerVersion(twice_in_a_row)),
    ("again_after_connections", Check::PerVersion(again_after_connections)),
    ("again_without_reuse", Check::PerVersion(again_without_reuse)),
    ("beside_a_connection", Check::PerVersion(beside_a_connection)),
    ("not_listening_yet", Check::PerVersion(not_listening_yet)),
    ("reused_datagrams", Check::PerVersion(reused_datagrams)),
    ("same_socket_twice", Check::PerVersion(same_socket_twice)),
    ("of_the_other_version", Check::Once(of_the_other_version)),
    ("group_address", Check::PerVersion(group_address)),
    ("broadcast_address", Check::Once(broadcast_address)),
    ("listen_unbound", Check::PerVersion(listen_unbound)),
    ("listen_connected", Check::PerVersion(listen_connected)),
    ("accept_without_listening", Check::PerVersion(accept_without_listening)),
];

fn foreign(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("listener", TcpListener::bind(ip.foreign(0)).map(drop));
    record.add("datagrams", UdpSocket::bind(ip.foreign(0)).map(drop));
    Ok(())
}

fn listener_twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address) = ip.listener()?;
    // std sets `SO_REUSEADDR`, which does not help against a listening socket.
    record.add("second", TcpListener::bind(address).map(drop));
    let socket = ip.stream_socket()?;
    record.add("without reuse", sys::bind(&socket, address));
    Ok(())
}

fn datagrams_twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, address) = ip.datagrams()?;
    record.add("second", UdpSocket::bind(address).map(drop));
    drop(socket);
    record.add("after close", UdpSocket::bind(address).map(drop));
    Ok(())
}

fn streams_and_datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address) = ip.listener()?;
    record.add("datagrams at a listener's port", UdpSocket::bind(address).map(drop));
    Ok(())
}

fn any_and_one(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let any = TcpListener::bind(ip.any(0))?;
    let port = any.local_addr()?.port();
    record.add("one after any", TcpListener::bind(ip.loopback(port)).map(drop));
    let (_one, address) = ip.listener()?;
    record.add("any after one", TcpListener::bind(ip.any(address.port())).map(drop));
    let any = UdpSocket::bind(ip.any(0))?;
    let port = any.local_addr()?.port();
    record.add("datagrams: one after any", UdpSocket::bind(ip.loopback(port)).map(drop));
    Ok(())
}

/// The same port on different addresses.
fn two_addresses(record: &mut Transcript) -> CheckResult {
    let (one, address) = IpVersion::V4.listener()?;
    let other = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), address.port()))?;
    let to_one = TcpStream::connect(address)?;
    let to_other = TcpStream::connect(other.local_addr()?)?;
    write(&to_one, b"one")?;
    write(&to_other, b"other")?;
    record.add("one", read(&one.accept()?.0));
    record.add("other", read(&other.accept()?.0));
    Ok(())
}

fn twice_in_a_row(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    drop(listener);
    record.add("listener", TcpListener::bind(address).map(drop));
    record.add("listener", TcpListener::bind(address).map(drop));
    Ok(())
}

/// A listener at `address` without `SO_REUSEADDR`, which std would set.
fn listener_without_reuse(ip: IpVersion, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = ip.stream_socket()?;
    sys::bind(&socket, address)?;
    sys::listen(&socket, 1)?;
    Ok(socket)
}

/// A restarted server can bind its port again, though its old connections are in TIME-WAIT.
fn again_after_connections(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    // The side that closes first enters TIME-WAIT.
    drop(server);
    record.add("client reads", read(&client));
    drop((client, listener));
    settle();
    let again = TcpListener::bind(address);
    record.add("again", again.as_ref().map(drop).map_err(|error| io::Error::from(error.kind())));
    let client = TcpStream::connect(address)?;
    write(&client, b"works")?;
    record.add("server reads", read(&again?.accept()?.0));
    Ok(())
}

fn again_without_reuse(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = listener_without_reuse(ip, ip.loopback(0))?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    let client = TcpStream::connect(address)?;
    drop(listener.accept()?);
    record.add("client reads", read(&client));
    drop((client, listener));
    settle();
    record.add("again", listener_without_reuse(ip, address).map(drop));
    record.add("with reuse", TcpListener::bind(address).map(drop));
    Ok(())
}

/// The port of a connection that is still open after its listener was closed.
fn beside_a_connection(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    drop(listener);
    record.add("without reuse", listener_without_reuse(ip, address).map(drop));
    let again = TcpListener::bind(address)?;
    let second = TcpStream::connect(address)?;
    write(&second, b"new")?;
    write(&client, b"old")?;
    record.add("new", read(&again.accept()?.0));
    record.add("old", read(&server));
    Ok(())
}

fn not_listening_yet(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let [one, other] = [ip.stream_socket()?, ip.stream_socket()?];
    for socket in [&one, &other] {
        sys::set_option(socket, sys::REUSE_ADDRESS, 1)?;
    }
    sys::bind(&one, ip.loopback(0))?;
    let one = TcpListener::from(one);
    let address = one.local_addr()?;
    record.add("connect to it", TcpStream::connect(address).map(drop));
    record.add("second bind", sys::bind(&other, address));
    record.add("first listens", sys::listen(&one, 1));
    record.add("second listens", sys::listen(&other, 1));
    Ok(())
}

fn reused_datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let [one, other] = [ip.datagram_socket()?, ip.datagram_socket()?];
    sys::set_option(&one, sys::REUSE_ADDRESS, 1)?;
    sys::bind(&one, ip.loopback(0))?;
    let address = UdpSocket::from(sys::dup(&one)?).local_addr()?;
    record.add("if only the first agrees", sys::bind(&other, address));
    sys::set_option(&other, sys::REUSE_ADDRESS, 1)?;
    record.add("if both agree", sys::bind(&other, address));
    Ok(())
}

fn same_socket_twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = ip.stream_socket()?;
    record.add("bind", sys::bind(&socket, ip.loopback(0)));
    record.add("again", sys::bind(&socket, ip.loopback(0)));
    let socket = ip.datagram_socket()?;
    record.add("datagrams", sys::bind(&socket, ip.loopback(0)));
    record.add("again", sys::bind(&socket, ip.loopback(0)));
    let (client, _server) = ip.pair()?;
    record.add("connected", sys::bind(&client, ip.loopback(0)));
    Ok(())
}

fn of_the_other_version(record: &mut Transcript) -> CheckResult {
    record.add("v4 socket", sys::bind(IpVersion::V4.stream_socket()?, IpVersion::V6.loopback(0)));
    record.add("v6 socket", sys::bind(IpVersion::V6.stream_socket()?, IpVersion::V4.loopback(0)));
    record.add("v4 datagrams", sys::bind(IpVersion::V4.datagram_socket()?, IpVersion::V6.loopback(0)));
    record.add("v6 datagrams", sys::bind(IpVersion::V6.datagram_socket()?, IpVersion::V4.loopback(0)));
    Ok(())
}

fn group_address(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let group: SocketAddr = match ip {
        IpVersion::V4 => ([239, 1, 2, 3], 0).into(),
        IpVersion::V6 => "[ff15::123]:0".parse().map_err(io::Error::other)?,
    };
    record.add("datagrams", UdpSocket::bind(group).and_then(|socket| socket.local_addr()));
    Ok(())
}

fn broadcast_address(record: &mut Transcript) -> CheckResult {
    record.add("datagrams", UdpSocket::bind((Ipv4Addr::BROADCAST, 0)).and_then(|socket| socket.local_addr()));
    record.add("loopback's", UdpSocket::bind("127.255.255.255:0").and_then(|socket| socket.local_addr()));
    Ok(())
}

fn listen_unbound(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = ip.stream_socket()?;
    record.add("listen", sys::listen(&socket, 1));
    let listener = TcpListener::from(socket);
    record.add("local", listener.local_addr());
    let client = TcpStream::connect(ip.loopback(listener.local_addr()?.port()))?;
    record.add("accept", listener.accept()?.1 == client.local_addr()?);
    Ok(())
}

fn listen_connected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("listen", sys::listen(&client, 1));
    record.add("datagrams", sys::listen(ip.datagram_socket()?, 1));
    Ok(())
}

fn accept_without_listening(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpListener::from(ip.stream_socket()?);
    record.add("fresh", socket.accept().map(drop));
    sys::bind(&socket, ip.loopback(0))?;
    record.add("bound", socket.accept().map(drop));
    let (client, _server) = ip.pair()?;
    record.add("connected", TcpListener::from(OwnedFd::from(client)).accept().map(drop));
    record.add("datagrams", TcpListener::from(ip.datagram_socket()?).accept().map(drop));
    Ok(())
}
