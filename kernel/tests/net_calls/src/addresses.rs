//! Local and remote addresses, and which can be connected to.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use crate::record::Transcript;
use crate::support::{IpVersion, read, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 9] = [
    ("pair", Check::PerVersion(pair)),
    ("listener", Check::PerVersion(listener)),
    ("accept_names_the_peer", Check::PerVersion(accept_names_the_peer)),
    ("fresh_stream_socket", Check::PerVersion(fresh_stream_socket)),
    ("fresh_datagram_socket", Check::PerVersion(fresh_datagram_socket)),
    ("after_the_peer_closed", Check::PerVersion(after_the_peer_closed)),
    ("other_loopback", Check::Once(other_loopback)),
    ("chosen_source", Check::PerVersion(chosen_source)),
    ("ports_differ", Check::PerVersion(ports_differ)),
];

fn pair(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("client local", client.local_addr());
    record.add("client peer", client.peer_addr());
    record.add("server local is client peer", server.local_addr()? == client.peer_addr()?);
    record.add("server peer is client local", server.peer_addr()? == client.local_addr()?);
    Ok(())
}

fn listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let listener = TcpListener::bind(ip.any(0))?;
    record.add("any", listener.local_addr());
    let port = listener.local_addr()?.port();
    record.add("port is not privileged", port >= 1024);
    let client = TcpStream::connect(ip.loopback(port))?;
    let (server, _) = listener.accept()?;
    record.add("accepted local", server.local_addr());
    record.add("client peer", client.peer_addr());
    // A listener has no peer; std has no call to ask for it, so the descriptor is converted to a stream.
    let unconnected = TcpStream::from(sys::dup(&listener)?);
    record.add("listener's peer", unconnected.peer_addr());
    Ok(())
}

fn accept_names_the_peer(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, peer) = listener.accept()?;
    record.add("peer", Ok::<_, std::io::Error>(peer));
    record.add("is the client", peer == client.local_addr()?);
    record.add("is what it says", peer == server.peer_addr()?);
    Ok(())
}

fn fresh_stream_socket(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpStream::from(ip.stream_socket()?);
    record.add("local", socket.local_addr());
    record.add("peer", socket.peer_addr());
    record.add("read", read(&socket));
    record.add("write", write(&socket, b"a"));
    record.add("error", socket.take_error());
    sys::bind(&socket, ip.loopback(0))?;
    record.add("local when bound", socket.local_addr());
    record.add("read when bound", read(&socket));
    Ok(())
}

fn fresh_datagram_socket(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = UdpSocket::from(ip.datagram_socket()?);
    record.add("local", socket.local_addr());
    record.add("peer", socket.peer_addr());
    let (receiver, address) = ip.datagrams()?;
    record.add("send", socket.send_to(b"unbound", address));
    record.add("local after sending", socket.local_addr());
    let mut buffer = [0; 16];
    let (size, sender) = receiver.recv_from(&mut buffer)?;
    record.add("received", buffer.split_at(size).0.to_vec());
    record.add("same port", sender.port() == socket.local_addr()?.port());
    Ok(())
}

fn after_the_peer_closed(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    drop(server);
    record.add("read", read(&client));
    record.add("local", client.local_addr());
    record.add("peer", client.peer_addr());
    Ok(())
}

/// All of 127.0.0.0/8 is the loopback interface.
fn other_loopback(record: &mut Transcript) -> CheckResult {
    let listener = TcpListener::bind("127.9.8.7:0")?;
    record.add("listener", listener.local_addr());
    let client = TcpStream::connect(listener.local_addr()?)?;
    record.add("client local", client.local_addr());
    record.add("client peer", client.peer_addr());
    let (_, peer) = listener.accept()?;
    record.add("accepted", Ok::<_, std::io::Error>(peer));
    let port = listener.local_addr()?.port();
    record.add("another address", TcpStream::connect(("127.9.8.6", port)).map(drop));
    Ok(())
}

fn chosen_source(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let socket = ip.stream_socket()?;
    let source = match ip {
        IpVersion::V4 => "127.0.0.2:0".parse().map_err(std::io::Error::other)?,
        IpVersion::V6 => ip.loopback(0),
    };
    sys::bind(&socket, source)?;
    let chosen = TcpStream::from(sys::dup(socket.as_fd())?).local_addr()?;
    record.add("connect", sys::connect(&socket, Some(address)));
    let (_, peer) = listener.accept()?;
    record.add("peer", Ok::<_, std::io::Error>(peer));
    record.add("port stays", peer == chosen);
    Ok(())
}

fn ports_differ(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address) = ip.listener()?;
    let clients: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
    let mut ports: Vec<u16> = clients
        .iter()
        .map(|client| client.local_addr().map(|address| address.port()))
        .collect::<Result<_, _>>()?;
    ports.sort_unstable();
    ports.dedup();
    record.add("different ports of 32", ports.len());
    record.add("all above 1023", ports.iter().all(|port| *port > 1023));
    Ok(())
}
