//! Local and remote addresses, and what may be connected to.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use crate::notes::Notes;
use crate::support::{Ip, read, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 9] = [
    ("pair", Check::Versions(pair)),
    ("listener", Check::Versions(listener)),
    ("accept_names_the_peer", Check::Versions(accept_names_the_peer)),
    ("fresh_stream_socket", Check::Versions(fresh_stream_socket)),
    ("fresh_datagram_socket", Check::Versions(fresh_datagram_socket)),
    ("after_the_peer_closed", Check::Versions(after_the_peer_closed)),
    ("other_loopback", Check::Plain(other_loopback)),
    ("chosen_source", Check::Versions(chosen_source)),
    ("ports_differ", Check::Versions(ports_differ)),
];

fn pair(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("client local", client.local_addr());
    notes.add("client peer", client.peer_addr());
    notes.add("server local is client peer", server.local_addr()? == client.peer_addr()?);
    notes.add("server peer is client local", server.peer_addr()? == client.local_addr()?);
    Ok(())
}

fn listener(notes: &mut Notes, ip: Ip) -> Outcome {
    let listener = TcpListener::bind(ip.any(0))?;
    notes.add("any", listener.local_addr());
    let port = listener.local_addr()?.port();
    notes.add("port is not privileged", port >= 1024);
    let client = TcpStream::connect(ip.loopback(port))?;
    let (server, _) = listener.accept()?;
    notes.add("accepted local", server.local_addr());
    notes.add("client peer", client.peer_addr());
    // A listener has no peer; std does not ask, so the descriptor is taken for a stream's.
    let unconnected = TcpStream::from(sys::dup(&listener)?);
    notes.add("listener's peer", unconnected.peer_addr());
    Ok(())
}

fn accept_names_the_peer(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, peer) = listener.accept()?;
    notes.add("peer", Ok::<_, std::io::Error>(peer));
    notes.add("is the client", peer == client.local_addr()?);
    notes.add("is what it says", peer == server.peer_addr()?);
    Ok(())
}

fn fresh_stream_socket(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpStream::from(ip.stream_socket()?);
    notes.add("local", socket.local_addr());
    notes.add("peer", socket.peer_addr());
    notes.add("read", read(&socket));
    notes.add("write", write(&socket, b"a"));
    notes.add("error", socket.take_error());
    sys::bind(&socket, ip.loopback(0))?;
    notes.add("local when bound", socket.local_addr());
    notes.add("read when bound", read(&socket));
    Ok(())
}

fn fresh_datagram_socket(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = UdpSocket::from(ip.datagram_socket()?);
    notes.add("local", socket.local_addr());
    notes.add("peer", socket.peer_addr());
    let (receiver, address) = ip.datagrams()?;
    notes.add("send", socket.send_to(b"unbound", address));
    notes.add("local after sending", socket.local_addr());
    let mut buffer = [0; 16];
    let (size, sender) = receiver.recv_from(&mut buffer)?;
    notes.add("received", buffer.split_at(size).0.to_vec());
    notes.add("same port", sender.port() == socket.local_addr()?.port());
    Ok(())
}

fn after_the_peer_closed(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    drop(server);
    notes.add("read", read(&client));
    notes.add("local", client.local_addr());
    notes.add("peer", client.peer_addr());
    Ok(())
}

/// All of 127.0.0.0/8 is this machine.
fn other_loopback(notes: &mut Notes) -> Outcome {
    let listener = TcpListener::bind("127.9.8.7:0")?;
    notes.add("listener", listener.local_addr());
    let client = TcpStream::connect(listener.local_addr()?)?;
    notes.add("client local", client.local_addr());
    notes.add("client peer", client.peer_addr());
    let (_, peer) = listener.accept()?;
    notes.add("accepted", Ok::<_, std::io::Error>(peer));
    let port = listener.local_addr()?.port();
    notes.add("another address", TcpStream::connect(("127.9.8.6", port)).map(drop));
    Ok(())
}

fn chosen_source(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let socket = ip.stream_socket()?;
    let source = match ip {
        Ip::V4 => "127.0.0.2:0".parse().map_err(std::io::Error::other)?,
        Ip::V6 => ip.loopback(0),
    };
    sys::bind(&socket, source)?;
    let chosen = TcpStream::from(sys::dup(socket.as_fd())?).local_addr()?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    let (_, peer) = listener.accept()?;
    notes.add("peer", Ok::<_, std::io::Error>(peer));
    notes.add("port stays", peer == chosen);
    Ok(())
}

fn ports_differ(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address) = ip.listener()?;
    let clients: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
    let mut ports: Vec<u16> = clients
        .iter()
        .map(|client| client.local_addr().map(|address| address.port()))
        .collect::<Result<_, _>>()?;
    ports.sort_unstable();
    ports.dedup();
    notes.add("different ports of 32", ports.len());
    notes.add("all above 1023", ports.iter().all(|port| *port > 1023));
    Ok(())
}
