//! socket2: options of sockets, and sockets that become std's.

use std::error::Error;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::{TestResult, digest, ensure};

/// Limit of waiting.
const TIMEOUT: Duration = Duration::from_secs(150);

pub(crate) fn socket2() -> TestResult {
    let (stream, datagram) = (stream_options()?, datagram_options()?);
    Ok(digest(&(format!("{stream:?}"), format!("{datagram:?}"), connections()?, datagrams()?)))
}

/// Sets options of a stream, and reads them.
fn stream_options() -> Result<impl std::fmt::Debug, Box<dyn Error>> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.set_linger(Some(Duration::from_secs(3)))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_millis(1_500)))?;
    socket.set_unicast_hops_v6(33)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(50));
    let keepalive = keepalive.with_interval(Duration::from_secs(7)).with_retries(5);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_nonblocking(true)?;
    let keepalive = (socket.keepalive()?, socket.tcp_keepalive_time()?, socket.tcp_keepalive_interval()?);
    let limits = (socket.read_timeout()?, socket.write_timeout()?, socket.linger()?);
    let kind = (socket.r#type()? == Type::STREAM, socket.nonblocking()?, socket.take_error()?.is_none());
    let switches =
        (socket.only_v6()?, socket.reuse_address()?, socket.tcp_nodelay()?, socket.unicast_hops_v6()?);
    Ok((keepalive, socket.tcp_keepalive_retries()?, limits, kind, switches))
}

/// Sets options of datagrams, and reads them.
fn datagram_options() -> Result<impl std::fmt::Debug, Box<dyn Error>> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_broadcast(true)?;
    socket.set_ttl_v4(12)?;
    socket.set_tos_v4(0x10)?;
    socket.set_multicast_ttl_v4(3)?;
    socket.set_multicast_loop_v4(false)?;
    let v6 = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    v6.set_multicast_hops_v6(4)?;
    v6.set_multicast_loop_v6(false)?;
    let multicast = (socket.multicast_ttl_v4()?, socket.multicast_loop_v4()?, v6.multicast_hops_v6()?);
    let switches = (v6.multicast_loop_v6()?, socket.broadcast()?, socket.r#type()? == Type::DGRAM);
    Ok((multicast, switches, socket.ttl_v4()?, socket.tos_v4()?))
}

/// Connects, and fails to.
fn connections() -> Result<String, Box<dyn Error>> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    listener.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
    listener.listen(8)?;
    let address = listener.local_addr()?;
    let socket =
        Socket::new(Domain::for_address(address.as_socket().ok_or("no address")?), Type::STREAM, None)?;
    socket.connect_timeout(&address, TIMEOUT)?;
    let (accepted, peer) = listener.accept()?;
    ensure(peer.as_socket() == socket.local_addr()?.as_socket(), || format!("the peer is {peer:?}"))?;
    let mut accepted = TcpStream::from(accepted.try_clone()?);
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"hello")?;
    SockRef::from(&stream).shutdown(std::net::Shutdown::Write)?;
    let mut text = String::new();
    accepted.read_to_string(&mut text)?;
    drop(TcpListener::from(listener));
    let refused = Socket::new(Domain::IPV4, Type::STREAM, None)?.connect(&address);
    Ok(format!("{text} {:?}", refused.map_err(|error| error.kind())))
}

/// Sends datagrams, and peeks at them.
fn datagrams() -> Result<String, Box<dyn Error>> {
    let receiver = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    receiver.bind(&SockAddr::from(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))))?;
    let sender = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    sender.send_to(b"datagram", &receiver.local_addr()?)?;
    let mut buffer = [MaybeUninit::uninit(); 16];
    let peeked = receiver.peek(&mut buffer)?;
    let (received, _) = receiver.recv_from(&mut buffer)?;
    Ok(format!("{peeked} {received}"))
}
