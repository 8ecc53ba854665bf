//! Non-blocking calls.

use std::net::{TcpListener, TcpStream};

use crate::record::Transcript;
use crate::support::{IpVersion, drain, fill, peek, read, receive, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 14] = [
    ("accept", Check::PerVersion(accept)),
    ("read", Check::PerVersion(reading)),
    ("peek", Check::PerVersion(peeking)),
    ("write", Check::PerVersion(writing)),
    ("receive", Check::PerVersion(receiving)),
    ("shared_by_clones", Check::PerVersion(shared_by_clones)),
    ("not_inherited", Check::PerVersion(not_inherited)),
    ("connect", Check::PerVersion(connect)),
    ("connect_again_and_again", Check::PerVersion(connect_again_and_again)),
    ("connect_refused", Check::PerVersion(connect_refused)),
    ("connect_waits_for_a_place", Check::PerVersion(connect_waits_for_a_place)),
    ("read_while_connecting", Check::PerVersion(read_while_connecting)),
    ("at_creation", Check::PerVersion(at_creation)),
    ("end_and_reset", Check::PerVersion(end_and_reset)),
];

fn accept(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    listener.set_nonblocking(true)?;
    record.add("empty queue", listener.accept().map(drop));
    record.add("incoming", listener.incoming().next().map(|result| result.map(drop)));
    let _client = TcpStream::connect(address)?;
    settle();
    record.add("pending connection", listener.accept().map(drop));
    record.add("empty again", listener.accept().map(drop));
    Ok(())
}

fn reading(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    server.set_nonblocking(true)?;
    record.add("nothing yet", read(&server));
    record.add("into no room", sys::receive(&server, &mut [], 0));
    write(&client, b"data")?;
    settle();
    record.add("data", read(&server));
    record.add("no more", read(&server));
    drop(client);
    settle();
    record.add("end", read(&server));
    server.set_nonblocking(false)?;
    record.add("waits again", read(&server));
    Ok(())
}

fn peeking(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    server.set_nonblocking(true)?;
    record.add("nothing yet", peek(&server));
    write(&client, b"data")?;
    settle();
    record.add("data", peek(&server));
    Ok(())
}

fn writing(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    record.add("took something", sent > 0);
    client.set_nonblocking(true)?;
    record.add("full", write(&client, b"a"));
    record.add("write of nothing", write(&client, b""));
    server.set_nonblocking(true)?;
    drain(&server, sent)?;
    record.add("room again", write(&client, b"a"));
    settle();
    record.add("read", read(&server));
    Ok(())
}

fn receiving(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    other.set_nonblocking(true)?;
    let mut buffer = [0; 8];
    record.add("receive", receive(&other));
    record.add("from", other.recv_from(&mut buffer).map(drop));
    record.add("peek", other.peek(&mut buffer));
    record.add("peek from", other.peek_from(&mut buffer).map(drop));
    one.send(b"data")?;
    settle();
    record.add("received", receive(&other));
    Ok(())
}

fn shared_by_clones(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    client.try_clone()?.set_nonblocking(true)?;
    record.add("read", read(&client));
    let (listener, _) = ip.listener()?;
    listener.try_clone()?.set_nonblocking(true)?;
    record.add("accept", listener.accept().map(drop));
    let (socket, _) = ip.datagrams()?;
    socket.try_clone()?.set_nonblocking(true)?;
    record.add("receive", receive(&socket));
    Ok(())
}

/// A connection accepted by a non-blocking listener is blocking.
fn not_inherited(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    listener.set_nonblocking(true)?;
    let client = TcpStream::connect(address)?;
    settle();
    let (server, _) = listener.accept()?;
    let flags = sys::fcntl(&server, sys::F_GETFL, 0)?;
    record.add("nonblocking", flags & sys::O_NONBLOCK != 0);
    drop(client);
    Ok(())
}

fn connect(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    record.add("connect", sys::connect(&socket, Some(address)));
    let (ready, events) = sys::poll(&[(sys::raw(&socket), sys::POLLOUT)], 5_000)?;
    record.add("ready", ready);
    record.add("to be written to", events == [sys::POLLOUT]);
    record.add("error", socket.take_error());
    record.add("write", write(&socket, b"hello"));
    record.add("server reads", read(&listener.accept()?.0));
    Ok(())
}

/// A second `connect` returns the result of the first.
fn connect_again_and_again(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address) = ip.listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    record.add("first", sys::connect(&socket, Some(address)));
    settle();
    record.add("second", sys::connect(&socket, Some(address)));
    record.add("third", sys::connect(&socket, Some(address)));
    Ok(())
}

fn connect_refused(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let address = ip.silent_address()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    record.add("connect", sys::connect(&socket, Some(address)));
    settle();
    record.add("error", socket.take_error());
    record.add("error again", socket.take_error());
    record.add("read", read(&socket));
    record.add("write", write(&socket, b"a"));
    record.add("connect", sys::connect(&socket, Some(address)));
    settle();
    record.add("connect for the answer", sys::connect(&socket, Some(address)));
    Ok(())
}

fn connect_waits_for_a_place(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address, _waiting) = ip.full_listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    record.add("first", sys::connect(&socket, Some(address)));
    settle();
    record.add("second", sys::connect(&socket, Some(address)));
    record.add("error", socket.take_error());
    record.add("peer", socket.peer_addr());
    record.add("accept", listener.accept().map(drop));
    let (ready, _) = sys::poll(&[(sys::raw(&socket), sys::POLLOUT)], 10_000)?;
    record.add("ready", ready);
    record.add("third", sys::connect(&socket, Some(address)));
    Ok(())
}

fn read_while_connecting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    record.add("connect", sys::connect(&socket, Some(address)));
    record.add("read", read(&socket));
    record.add("write", write(&socket, b"a"));
    record.add("local is known", socket.local_addr()?.port() != 0);
    record.add("peer", socket.peer_addr());
    Ok(())
}

fn at_creation(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = sys::socket(ip.family(), sys::SOCK_DGRAM | sys::SOCK_NONBLOCK)?;
    sys::bind(&socket, ip.loopback(0))?;
    record.add("receive", sys::receive(&socket, &mut [0; 8], 0));
    let socket = sys::socket(ip.family(), sys::SOCK_STREAM | sys::SOCK_NONBLOCK)?;
    sys::bind(&socket, ip.loopback(0))?;
    sys::listen(&socket, 1)?;
    record.add("accept", TcpListener::from(socket).accept().map(drop));
    Ok(())
}

fn end_and_reset(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.set_nonblocking(true)?;
    sys::set_linger(&server, Some(0))?;
    drop(server);
    settle();
    record.add("read", read(&client));
    record.add("read again", read(&client));
    record.add("write", write(&client, b"a"));
    Ok(())
}
