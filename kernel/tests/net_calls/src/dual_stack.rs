//! IPv4 over IPv6 sockets (dual stack).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use crate::record::Transcript;
use crate::support::{IpVersion, read, receive, receive_from, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 14] = [
    ("listener", Check::Once(listener)),
    ("listener_only_v6", Check::Once(listener_only_v6)),
    ("connect_mapped", Check::Once(connect_mapped)),
    ("connect_mapped_only_v6", Check::Once(connect_mapped_only_v6)),
    ("connect_mapped_refused", Check::Once(connect_mapped_refused)),
    ("bind_mapped", Check::Once(bind_mapped)),
    ("datagrams", Check::Once(datagrams)),
    ("datagrams_mapped", Check::Once(datagrams_mapped)),
    ("datagrams_only_v6", Check::Once(datagrams_only_v6)),
    ("both_at_one_port", Check::Once(both_at_one_port)),
    ("one_port_taken", Check::Once(one_port_taken)),
    ("default", Check::Once(default)),
    ("too_late", Check::Once(too_late)),
    ("loopback_is_not_any", Check::Once(loopback_is_not_any)),
];

/// An IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        SocketAddr::V6(_) => address,
    }
}

/// A socket bound to the unspecified IPv6 address, and to IPv4 unless `only_v6`.
fn bound(kind: i32, only_v6: bool, port: u16) -> io::Result<OwnedFd> {
    let socket = sys::socket(sys::V6, kind)?;
    sys::set_option(&socket, sys::ONLY_V6, i32::from(only_v6))?;
    sys::bind(&socket, IpVersion::V6.any(port))?;
    Ok(socket)
}

fn listening(only_v6: bool, port: u16) -> io::Result<TcpListener> {
    let socket = bound(sys::SOCK_STREAM, only_v6, port)?;
    sys::listen(&socket, 8)?;
    Ok(TcpListener::from(socket))
}

fn listener(record: &mut Transcript) -> CheckResult {
    let listener = TcpListener::bind(IpVersion::V6.any(0))?;
    let port = listener.local_addr()?.port();
    for ip in [IpVersion::V4, IpVersion::V6] {
        let client = TcpStream::connect(ip.loopback(port))?;
        let (server, peer) = listener.accept()?;
        record.add("peer", Ok::<_, io::Error>(peer));
        record.add("local", server.local_addr());
        record.add("client's peer", client.peer_addr());
        write(&server, b"hello")?;
        record.add("read", read(&client));
    }
    Ok(())
}

fn listener_only_v6(record: &mut Transcript) -> CheckResult {
    let listener = listening(true, 0)?;
    let port = listener.local_addr()?.port();
    record.add("v4", TcpStream::connect(IpVersion::V4.loopback(port)).map(drop));
    record.add("v6", TcpStream::connect(IpVersion::V6.loopback(port)).map(drop));
    record.add("mapped", TcpStream::connect(mapped(IpVersion::V4.loopback(port))).map(drop));
    Ok(())
}

fn connect_mapped(record: &mut Transcript) -> CheckResult {
    let (listener, address) = IpVersion::V4.listener()?;
    let client = TcpStream::connect(mapped(address))?;
    let (server, peer) = listener.accept()?;
    record.add("client local", client.local_addr());
    record.add("client peer", client.peer_addr());
    record.add("accepted", Ok::<_, io::Error>(peer));
    write(&client, b"through")?;
    record.add("read", read(&server));
    Ok(())
}

fn connect_mapped_only_v6(record: &mut Transcript) -> CheckResult {
    let (_listener, address) = IpVersion::V4.listener()?;
    let socket = IpVersion::V6.stream_socket()?;
    sys::set_option(&socket, sys::ONLY_V6, 1)?;
    record.add("stream", sys::connect(&socket, Some(mapped(address))));
    let socket = IpVersion::V6.datagram_socket()?;
    sys::set_option(&socket, sys::ONLY_V6, 1)?;
    record.add("datagrams", sys::connect(&socket, Some(mapped(address))));
    record.add("send to", sys::send_to(&socket, b"a", mapped(address)));
    Ok(())
}

fn connect_mapped_refused(record: &mut Transcript) -> CheckResult {
    record.add("connect", TcpStream::connect(mapped(IpVersion::V4.silent_address()?)).map(drop));
    Ok(())
}

fn bind_mapped(record: &mut Transcript) -> CheckResult {
    let listener = TcpListener::bind(mapped(IpVersion::V4.loopback(0)))?;
    let port = listener.local_addr()?.port();
    record.add("local", listener.local_addr());
    let client = TcpStream::connect(IpVersion::V4.loopback(port))?;
    record.add("accept", listener.accept().map(|(_, peer)| peer));
    drop(client);
    record.add("v6", TcpStream::connect(IpVersion::V6.loopback(port)).map(drop));
    record.add("v4 at the same port", TcpListener::bind(IpVersion::V4.loopback(port)).map(drop));
    record.add("v6 at the same port", TcpListener::bind(IpVersion::V6.loopback(port)).map(drop));
    let socket = IpVersion::V6.stream_socket()?;
    sys::set_option(&socket, sys::ONLY_V6, 1)?;
    record.add("only v6", sys::bind(&socket, mapped(IpVersion::V4.loopback(0))));
    Ok(())
}

fn datagrams(record: &mut Transcript) -> CheckResult {
    let socket = UdpSocket::bind(IpVersion::V6.any(0))?;
    let port = socket.local_addr()?.port();
    for ip in [IpVersion::V4, IpVersion::V6] {
        let (client, _) = ip.datagrams()?;
        client.send_to(b"question", ip.loopback(port))?;
        let (bytes, sender) = receive_from(&socket)?;
        record.add("received", bytes);
        record.add("from", Ok::<_, io::Error>(sender));
        record.add("answer", socket.send_to(b"answer", sender));
        record.add("received", receive_from(&client));
    }
    Ok(())
}

fn datagrams_mapped(record: &mut Transcript) -> CheckResult {
    let (receiver, address) = IpVersion::V4.datagrams()?;
    let socket = UdpSocket::bind(IpVersion::V6.any(0))?;
    record.add("connect", socket.connect(mapped(address)));
    record.add("local", socket.local_addr());
    record.add("peer", socket.peer_addr());
    socket.send(b"hello")?;
    record.add("received", receive(&receiver));
    let loopback = UdpSocket::bind(IpVersion::V6.loopback(0))?;
    record.add("from ::1", loopback.send_to(b"a", mapped(address)));
    Ok(())
}

fn datagrams_only_v6(record: &mut Transcript) -> CheckResult {
    let socket = UdpSocket::from(bound(sys::SOCK_DGRAM, true, 0)?);
    let port = socket.local_addr()?.port();
    let (v4, _) = IpVersion::V4.datagrams()?;
    let (v6, _) = IpVersion::V6.datagrams()?;
    v4.send_to(b"from v4", IpVersion::V4.loopback(port))?;
    v6.send_to(b"from v6", IpVersion::V6.loopback(port))?;
    record.add("first", receive(&socket));
    socket.set_nonblocking(true)?;
    record.add("second", receive(&socket));
    Ok(())
}

fn both_at_one_port(record: &mut Transcript) -> CheckResult {
    let v6 = listening(true, 0)?;
    let port = v6.local_addr()?.port();
    let v4 = TcpListener::bind(IpVersion::V4.any(port))?;
    let clients = [
        TcpStream::connect(IpVersion::V4.loopback(port))?,
        TcpStream::connect(IpVersion::V6.loopback(port))?,
    ];
    record.add("v4", v4.accept().map(|(_, peer)| peer));
    record.add("v6", v6.accept().map(|(_, peer)| peer));
    drop(clients);
    Ok(())
}

fn one_port_taken(record: &mut Transcript) -> CheckResult {
    let dual = listening(false, 0)?;
    let port = dual.local_addr()?.port();
    record.add("v4 any", TcpListener::bind(IpVersion::V4.any(port)).map(drop));
    record.add("v4 loopback", TcpListener::bind(IpVersion::V4.loopback(port)).map(drop));
    record.add("v6 loopback", TcpListener::bind(IpVersion::V6.loopback(port)).map(drop));
    let v4 = TcpListener::bind(IpVersion::V4.any(0))?;
    let port = v4.local_addr()?.port();
    record.add("dual after v4", TcpListener::bind(IpVersion::V6.any(port)).map(drop));
    record.add("only v6 after v4", listening(true, port).map(drop));
    let socket = UdpSocket::bind(IpVersion::V4.any(0))?;
    let port = socket.local_addr()?.port();
    record.add("datagrams", UdpSocket::bind(IpVersion::V6.any(port)).map(drop));
    record.add("datagrams, only v6", bound(sys::SOCK_DGRAM, true, port).map(drop));
    Ok(())
}

fn default(record: &mut Transcript) -> CheckResult {
    record.add("stream", sys::option(IpVersion::V6.stream_socket()?, sys::ONLY_V6));
    record.add("datagrams", sys::option(IpVersion::V6.datagram_socket()?, sys::ONLY_V6));
    record.add("listener", sys::option(TcpListener::bind(IpVersion::V6.any(0))?, sys::ONLY_V6));
    record.add("set", sys::option(listening(true, 0)?, sys::ONLY_V6));
    record.add("of v4", sys::option(IpVersion::V4.stream_socket()?, sys::ONLY_V6));
    Ok(())
}

fn too_late(record: &mut Transcript) -> CheckResult {
    let listener = TcpListener::bind(IpVersion::V6.any(0))?;
    record.add("bound", sys::set_option(&listener, sys::ONLY_V6, 1));
    #[expect(deprecated, reason = "it is there, so it is checked")]
    record.add("by std", listener.set_only_v6(true));
    #[expect(deprecated, reason = "it is there, so it is checked")]
    record.add("by std", listener.only_v6());
    let (v4, _) = IpVersion::V4.listener()?;
    record.add("of v4", sys::set_option(&v4, sys::ONLY_V6, 1));
    Ok(())
}

/// The IPv6 loopback address does not include the IPv4 one.
fn loopback_is_not_any(record: &mut Transcript) -> CheckResult {
    let (listener, address) = IpVersion::V6.listener()?;
    record.add("v4", TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).map(drop));
    record.add("v6", TcpStream::connect((Ipv6Addr::LOCALHOST, address.port())).map(drop));
    record.add("v4 may take the port", TcpListener::bind(IpVersion::V4.loopback(address.port())).map(drop));
    drop(listener);
    Ok(())
}
