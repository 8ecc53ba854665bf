//! Calls that do not wait.

use std::net::{TcpListener, TcpStream};

use crate::notes::Notes;
use crate::support::{Ip, drain, fill, peek, read, receive, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 14] = [
    ("accept", Check::Versions(accept)),
    ("read", Check::Versions(reading)),
    ("peek", Check::Versions(peeking)),
    ("write", Check::Versions(writing)),
    ("receive", Check::Versions(receiving)),
    ("shared_by_clones", Check::Versions(shared_by_clones)),
    ("not_inherited", Check::Versions(not_inherited)),
    ("connect", Check::Versions(connect)),
    ("connect_again_and_again", Check::Versions(connect_again_and_again)),
    ("connect_refused", Check::Versions(connect_refused)),
    ("connect_waits_for_a_place", Check::Versions(connect_waits_for_a_place)),
    ("read_while_connecting", Check::Versions(read_while_connecting)),
    ("at_creation", Check::Versions(at_creation)),
    ("end_and_reset", Check::Versions(end_and_reset)),
];

fn accept(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    listener.set_nonblocking(true)?;
    notes.add("nobody", listener.accept().map(drop));
    notes.add("incoming", listener.incoming().next().map(|result| result.map(drop)));
    let _client = TcpStream::connect(address)?;
    settle();
    notes.add("somebody", listener.accept().map(drop));
    notes.add("nobody again", listener.accept().map(drop));
    Ok(())
}

fn reading(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    server.set_nonblocking(true)?;
    notes.add("nothing yet", read(&server));
    notes.add("into no room", sys::receive(&server, &mut [], 0));
    write(&client, b"data")?;
    settle();
    notes.add("data", read(&server));
    notes.add("no more", read(&server));
    drop(client);
    settle();
    notes.add("end", read(&server));
    server.set_nonblocking(false)?;
    notes.add("waits again", read(&server));
    Ok(())
}

fn peeking(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    server.set_nonblocking(true)?;
    notes.add("nothing yet", peek(&server));
    write(&client, b"data")?;
    settle();
    notes.add("data", peek(&server));
    Ok(())
}

fn writing(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    notes.add("took something", sent > 0);
    client.set_nonblocking(true)?;
    notes.add("full", write(&client, b"a"));
    notes.add("write of nothing", write(&client, b""));
    server.set_nonblocking(true)?;
    drain(&server, sent)?;
    notes.add("room again", write(&client, b"a"));
    settle();
    notes.add("read", read(&server));
    Ok(())
}

fn receiving(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    other.set_nonblocking(true)?;
    let mut buffer = [0; 8];
    notes.add("receive", receive(&other));
    notes.add("from", other.recv_from(&mut buffer).map(drop));
    notes.add("peek", other.peek(&mut buffer));
    notes.add("peek from", other.peek_from(&mut buffer).map(drop));
    one.send(b"data")?;
    settle();
    notes.add("received", receive(&other));
    Ok(())
}

fn shared_by_clones(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    client.try_clone()?.set_nonblocking(true)?;
    notes.add("read", read(&client));
    let (listener, _) = ip.listener()?;
    listener.try_clone()?.set_nonblocking(true)?;
    notes.add("accept", listener.accept().map(drop));
    let (socket, _) = ip.datagrams()?;
    socket.try_clone()?.set_nonblocking(true)?;
    notes.add("receive", receive(&socket));
    Ok(())
}

/// What a listener that does not wait accepts, waits.
fn not_inherited(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    listener.set_nonblocking(true)?;
    let client = TcpStream::connect(address)?;
    settle();
    let (server, _) = listener.accept()?;
    let flags = sys::fcntl(&server, sys::F_GETFL, 0)?;
    notes.add("nonblocking", flags & sys::O_NONBLOCK != 0);
    drop(client);
    Ok(())
}

fn connect(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    let (ready, events) = sys::poll(&[(sys::raw(&socket), sys::POLLOUT)], 5_000)?;
    notes.add("ready", ready);
    notes.add("to be written to", events == [sys::POLLOUT]);
    notes.add("error", socket.take_error());
    notes.add("write", write(&socket, b"hello"));
    notes.add("server reads", read(&listener.accept()?.0));
    Ok(())
}

/// Connecting again asks how it went.
fn connect_again_and_again(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address) = ip.listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    notes.add("first", sys::connect(&socket, Some(address)));
    settle();
    notes.add("second", sys::connect(&socket, Some(address)));
    notes.add("third", sys::connect(&socket, Some(address)));
    Ok(())
}

fn connect_refused(notes: &mut Notes, ip: Ip) -> Outcome {
    let address = ip.silent_address()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    settle();
    notes.add("error", socket.take_error());
    notes.add("error again", socket.take_error());
    notes.add("read", read(&socket));
    notes.add("write", write(&socket, b"a"));
    notes.add("connect", sys::connect(&socket, Some(address)));
    settle();
    notes.add("connect for the answer", sys::connect(&socket, Some(address)));
    Ok(())
}

fn connect_waits_for_a_place(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address, _waiting) = ip.full_listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    notes.add("first", sys::connect(&socket, Some(address)));
    settle();
    notes.add("second", sys::connect(&socket, Some(address)));
    notes.add("error", socket.take_error());
    notes.add("peer", socket.peer_addr());
    notes.add("accept", listener.accept().map(drop));
    let (ready, _) = sys::poll(&[(sys::raw(&socket), sys::POLLOUT)], 10_000)?;
    notes.add("ready", ready);
    notes.add("third", sys::connect(&socket, Some(address)));
    Ok(())
}

fn read_while_connecting(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let socket = TcpStream::from(ip.stream_socket()?);
    socket.set_nonblocking(true)?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    notes.add("read", read(&socket));
    notes.add("write", write(&socket, b"a"));
    notes.add("local is known", socket.local_addr()?.port() != 0);
    notes.add("peer", socket.peer_addr());
    Ok(())
}

fn at_creation(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = sys::socket(ip.family(), sys::SOCK_DGRAM | sys::SOCK_NONBLOCK)?;
    sys::bind(&socket, ip.loopback(0))?;
    notes.add("receive", sys::receive(&socket, &mut [0; 8], 0));
    let socket = sys::socket(ip.family(), sys::SOCK_STREAM | sys::SOCK_NONBLOCK)?;
    sys::bind(&socket, ip.loopback(0))?;
    sys::listen(&socket, 1)?;
    notes.add("accept", TcpListener::from(socket).accept().map(drop));
    Ok(())
}

fn end_and_reset(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.set_nonblocking(true)?;
    sys::set_linger(&server, Some(0))?;
    drop(server);
    settle();
    notes.add("read", read(&client));
    notes.add("read again", read(&client));
    notes.add("write", write(&client, b"a"));
    Ok(())
}
