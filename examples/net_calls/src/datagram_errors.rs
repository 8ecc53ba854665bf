//! Datagrams that do not arrive, and calls that make no sense.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Ip, join, receive, receive_from, settle};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 15] = [
    ("refused", Check::Versions(refused)),
    ("refused_wakes", Check::Versions(refused_wakes)),
    ("refused_taken", Check::Versions(refused_taken)),
    ("refused_once", Check::Versions(refused_once)),
    ("refused_peek", Check::Versions(refused_peek)),
    ("refused_then_welcome", Check::Versions(refused_then_welcome)),
    ("nobody_told", Check::Versions(nobody_told)),
    ("no_peer", Check::Versions(no_peer)),
    ("port_0", Check::Versions(port_0)),
    ("other_version", Check::Plain(other_version)),
    ("broadcast", Check::Plain(broadcast)),
    ("shutdown_read", Check::Versions(shutdown_read)),
    ("shutdown_write", Check::Versions(shutdown_write)),
    ("shutdown_unconnected", Check::Versions(shutdown_unconnected)),
    ("send_to_though_connected", Check::Versions(send_to_though_connected)),
];

/// A socket that has sent to a port where nobody is.
fn refused_socket(ip: Ip) -> io::Result<UdpSocket> {
    let (socket, _) = ip.datagrams()?;
    // It must not wait for ever if the refusal gets lost.
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.connect(ip.silent_datagram_address()?)?;
    socket.send(b"anybody?")?;
    settle();
    Ok(socket)
}

fn refused(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = refused_socket(ip)?;
    notes.add("send", socket.send(b"again"));
    settle();
    notes.add("receive", receive(&socket));
    Ok(())
}

fn refused_wakes(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.connect(ip.silent_datagram_address()?)?;
    let result = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&socket));
        settle();
        socket.send(b"anybody?")?;
        Ok::<_, io::Error>(join(receiver))
    })?;
    notes.add("receive", result);
    Ok(())
}

fn refused_taken(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = refused_socket(ip)?;
    notes.add("error", socket.take_error());
    notes.add("error again", socket.take_error());
    notes.add("send", socket.send(b"again"));
    Ok(())
}

fn refused_once(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = refused_socket(ip)?;
    socket.set_nonblocking(true)?;
    notes.add("receive", receive(&socket));
    notes.add("receive again", receive(&socket));
    Ok(())
}

fn refused_peek(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = refused_socket(ip)?;
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 8];
    notes.add("peek", socket.peek(&mut buffer));
    notes.add("receive", receive(&socket));
    Ok(())
}

/// Being refused is no end: somebody may come.
fn refused_then_welcome(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = refused_socket(ip)?;
    notes.add("receive", receive(&socket));
    let peer = UdpSocket::bind(socket.peer_addr()?)?;
    notes.add("send", socket.send(b"hello"));
    notes.add("received", receive(&peer));
    peer.send_to(b"answer", socket.local_addr()?)?;
    notes.add("answer", receive(&socket));
    Ok(())
}

/// A socket without a peer is not told.
fn nobody_told(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    let silent = ip.silent_datagram_address()?;
    notes.add("send", socket.send_to(b"anybody?", silent));
    settle();
    notes.add("send", socket.send_to(b"anybody?", silent));
    notes.add("error", socket.take_error());
    socket.set_nonblocking(true)?;
    notes.add("receive", receive(&socket));
    Ok(())
}

fn no_peer(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    notes.add("send", socket.send(b"a"));
    notes.add("send nothing", socket.send(b""));
    notes.add("peer", socket.peer_addr());
    Ok(())
}

fn port_0(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    notes.add("send to", socket.send_to(b"a", ip.loopback(0)));
    notes.add("connect", socket.connect(ip.loopback(0)));
    notes.add("peer", socket.peer_addr());
    Ok(())
}

fn other_version(notes: &mut Notes) -> Outcome {
    let ((v4, v4_address), (v6, v6_address)) = (Ip::V4.datagrams()?, Ip::V6.datagrams()?);
    notes.add("v4 to v6", v4.send_to(b"a", v6_address));
    notes.add("loopback v6 to v4", v6.send_to(b"a", v4_address));
    let any = UdpSocket::bind(Ip::V6.any(0))?;
    // The system allows it, though the family is not the socket's.
    notes.add("any v6 to v4", sys::send_to(&any, b"dual", v4_address));
    notes.add("received", receive_from(&v4));
    Ok(())
}

fn broadcast(notes: &mut Notes) -> Outcome {
    let receiver = UdpSocket::bind(Ip::V4.any(0))?;
    let to: SocketAddr = (Ipv4Addr::new(127, 255, 255, 255), receiver.local_addr()?.port()).into();
    let (sender, _) = Ip::V4.datagrams()?;
    notes.add("at first", sender.broadcast());
    notes.add("not allowed", sender.send_to(b"all", to));
    notes.add("connect", sender.connect(to));
    sender.set_broadcast(true)?;
    notes.add("then", sender.broadcast());
    notes.add("allowed", sender.send_to(b"all", to));
    notes.add("received", receive(&receiver));
    notes.add("connect", sender.connect(to));
    Ok(())
}

/// std has no call for it, so the descriptor is taken for a stream's.
fn as_stream(socket: UdpSocket) -> TcpStream {
    TcpStream::from(OwnedFd::from(socket))
}

fn shutdown_read(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let shut = as_stream(other.try_clone()?);
    one.send(b"waiting")?;
    settle();
    notes.add("shutdown", shut.shutdown(Shutdown::Read));
    notes.add("received", receive(&other));
    notes.add("received", receive(&other));
    notes.add("sent", other.send(b"other way"));
    notes.add("received", receive(&one));
    notes.add("peer sends", one.send(b"late"));
    settle();
    notes.add("received", receive(&other));
    Ok(())
}

fn shutdown_write(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let shut = as_stream(other.try_clone()?);
    notes.add("shutdown", shut.shutdown(Shutdown::Write));
    notes.add("send", other.send(b"a"));
    notes.add("send to", other.send_to(b"a", one.local_addr()?));
    one.send(b"other way")?;
    notes.add("received", receive(&other));
    Ok(())
}

fn shutdown_unconnected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    let shut = as_stream(socket.try_clone()?);
    notes.add("shutdown", shut.shutdown(Shutdown::Both));
    socket.set_nonblocking(true)?;
    notes.add("receive", receive(&socket));
    Ok(())
}

/// An address given counts more than the peer.
fn send_to_though_connected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    let (third, address) = ip.datagrams()?;
    notes.add("send to", one.send_to(b"third", address));
    notes.add("received", receive(&third));
    notes.add("send", one.send(b"other"));
    notes.add("received", receive(&other));
    Ok(())
}
