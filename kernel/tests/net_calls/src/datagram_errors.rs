//! Datagrams that are not delivered, and invalid calls.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, join, receive, receive_from, settle};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 15] = [
    ("refused", Check::PerVersion(refused)),
    ("refused_wakes", Check::PerVersion(refused_wakes)),
    ("refused_taken", Check::PerVersion(refused_taken)),
    ("refused_once", Check::PerVersion(refused_once)),
    ("refused_peek", Check::PerVersion(refused_peek)),
    ("refused_then_welcome", Check::PerVersion(refused_then_welcome)),
    ("unconnected_gets_no_error", Check::PerVersion(unconnected_gets_no_error)),
    ("no_peer", Check::PerVersion(no_peer)),
    ("port_0", Check::PerVersion(port_0)),
    ("other_version", Check::Once(other_version)),
    ("broadcast", Check::Once(broadcast)),
    ("shutdown_read", Check::PerVersion(shutdown_read)),
    ("shutdown_write", Check::PerVersion(shutdown_write)),
    ("shutdown_unconnected", Check::PerVersion(shutdown_unconnected)),
    ("send_to_though_connected", Check::PerVersion(send_to_though_connected)),
];

/// A connected socket that has sent to a port without a socket.
fn refused_socket(ip: IpVersion) -> io::Result<UdpSocket> {
    let (socket, _) = ip.datagrams()?;
    // The timeout ends the row if the ICMP error is lost.
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.connect(ip.silent_datagram_address()?)?;
    socket.send(b"datagram")?;
    settle();
    Ok(socket)
}

fn refused(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = refused_socket(ip)?;
    record.add("send", socket.send(b"again"));
    settle();
    record.add("receive", receive(&socket));
    Ok(())
}

fn refused_wakes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.connect(ip.silent_datagram_address()?)?;
    let result = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&socket));
        settle();
        socket.send(b"datagram")?;
        Ok::<_, io::Error>(join(receiver))
    })?;
    record.add("receive", result);
    Ok(())
}

fn refused_taken(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = refused_socket(ip)?;
    record.add("error", socket.take_error());
    record.add("error again", socket.take_error());
    record.add("send", socket.send(b"again"));
    Ok(())
}

fn refused_once(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = refused_socket(ip)?;
    socket.set_nonblocking(true)?;
    record.add("receive", receive(&socket));
    record.add("receive again", receive(&socket));
    Ok(())
}

fn refused_peek(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = refused_socket(ip)?;
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 8];
    record.add("peek", socket.peek(&mut buffer));
    record.add("receive", receive(&socket));
    Ok(())
}

/// A refused socket can still send, once there is a receiver.
fn refused_then_welcome(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = refused_socket(ip)?;
    record.add("receive", receive(&socket));
    let peer = UdpSocket::bind(socket.peer_addr()?)?;
    record.add("send", socket.send(b"hello"));
    record.add("received", receive(&peer));
    peer.send_to(b"answer", socket.local_addr()?)?;
    record.add("answer", receive(&socket));
    Ok(())
}

/// An unconnected socket gets no ICMP error.
fn unconnected_gets_no_error(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    let silent = ip.silent_datagram_address()?;
    record.add("send", socket.send_to(b"datagram", silent));
    settle();
    record.add("send", socket.send_to(b"datagram", silent));
    record.add("error", socket.take_error());
    socket.set_nonblocking(true)?;
    record.add("receive", receive(&socket));
    Ok(())
}

fn no_peer(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    record.add("send", socket.send(b"a"));
    record.add("send nothing", socket.send(b""));
    record.add("peer", socket.peer_addr());
    Ok(())
}

fn port_0(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    record.add("send to", socket.send_to(b"a", ip.loopback(0)));
    record.add("connect", socket.connect(ip.loopback(0)));
    record.add("peer", socket.peer_addr());
    Ok(())
}

fn other_version(record: &mut Transcript) -> CheckResult {
    let ((v4, v4_address), (v6, v6_address)) = (IpVersion::V4.datagrams()?, IpVersion::V6.datagrams()?);
    record.add("v4 to v6", v4.send_to(b"a", v6_address));
    record.add("loopback v6 to v4", v6.send_to(b"a", v4_address));
    let any = UdpSocket::bind(IpVersion::V6.any(0))?;
    // Linux allows it, though the address family is not the socket's.
    record.add("any v6 to v4", sys::send_to(&any, b"dual", v4_address));
    record.add("received", receive_from(&v4));
    Ok(())
}

fn broadcast(record: &mut Transcript) -> CheckResult {
    let receiver = UdpSocket::bind(IpVersion::V4.any(0))?;
    let to: SocketAddr = (Ipv4Addr::new(127, 255, 255, 255), receiver.local_addr()?.port()).into();
    let (sender, _) = IpVersion::V4.datagrams()?;
    record.add("at first", sender.broadcast());
    record.add("not allowed", sender.send_to(b"all", to));
    record.add("connect", sender.connect(to));
    sender.set_broadcast(true)?;
    record.add("then", sender.broadcast());
    record.add("allowed", sender.send_to(b"all", to));
    record.add("received", receive(&receiver));
    record.add("connect", sender.connect(to));
    Ok(())
}

/// std has no call for it, so the descriptor is converted to a stream.
fn as_stream(socket: UdpSocket) -> TcpStream {
    TcpStream::from(OwnedFd::from(socket))
}

fn shutdown_read(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let shut = as_stream(other.try_clone()?);
    one.send(b"waiting")?;
    settle();
    record.add("shutdown", shut.shutdown(Shutdown::Read));
    record.add("received", receive(&other));
    record.add("received", receive(&other));
    record.add("sent", other.send(b"other way"));
    record.add("received", receive(&one));
    record.add("peer sends", one.send(b"late"));
    settle();
    record.add("received", receive(&other));
    Ok(())
}

fn shutdown_write(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let shut = as_stream(other.try_clone()?);
    record.add("shutdown", shut.shutdown(Shutdown::Write));
    record.add("send", other.send(b"a"));
    record.add("send to", other.send_to(b"a", one.local_addr()?));
    one.send(b"other way")?;
    record.add("received", receive(&other));
    Ok(())
}

fn shutdown_unconnected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    let shut = as_stream(socket.try_clone()?);
    record.add("shutdown", shut.shutdown(Shutdown::Both));
    socket.set_nonblocking(true)?;
    record.add("receive", receive(&socket));
    Ok(())
}

/// An explicit address overrides the peer.
fn send_to_though_connected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    let (third, address) = ip.datagrams()?;
    record.add("send to", one.send_to(b"third", address));
    record.add("received", receive(&third));
    record.add("send", one.send(b"other"));
    record.add("received", receive(&other));
    Ok(())
}
