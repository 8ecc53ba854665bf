//! Options: what they are at first, what they can be set to, and who has them.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use crate::notes::Notes;
use crate::support::{Ip, read, settle, write};
use crate::sys::Name;
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 15] = [
    ("no_delay", Check::Versions(no_delay)),
    ("ttl", Check::Versions(ttl)),
    ("ttl_of_datagrams", Check::Versions(ttl_of_datagrams)),
    ("ttl_of_listener", Check::Versions(ttl_of_listener)),
    ("keep_alive", Check::Versions(keep_alive)),
    ("broadcast", Check::Versions(broadcast)),
    ("reuse_address", Check::Versions(reuse_address)),
    ("buffers", Check::Versions(buffers)),
    ("buffers_of_datagrams", Check::Versions(buffers_of_datagrams)),
    ("type_of_service", Check::Plain(type_of_service)),
    ("error", Check::Versions(error)),
    ("inherited", Check::Versions(inherited)),
    ("unknown", Check::Versions(unknown)),
    ("lengths", Check::Versions(lengths)),
    ("for_streams_only", Check::Versions(for_streams_only)),
];

/// The options that are numbers, with what they are before anybody sets them.
fn switch(notes: &mut Notes, fd: &impl AsFd, name: Name) -> Outcome {
    notes.add("at first", sys::option(fd, name));
    for value in [1, 0, 5, -1] {
        sys::set_option(fd, name, value)?;
        notes.add(&format!("set to {value}"), sys::option(fd, name));
    }
    Ok(())
}

fn no_delay(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("client", client.nodelay());
    notes.add("server", server.nodelay());
    for value in [true, false, true] {
        notes.add("set", client.set_nodelay(value));
        notes.add("then", client.nodelay());
    }
    for byte in *b"abc" {
        write(&client, &[byte])?;
    }
    settle();
    notes.add("small writes arrive", read(&server));
    let fresh = TcpStream::from(ip.stream_socket()?);
    notes.add("unconnected", fresh.set_nodelay(true));
    notes.add("then", fresh.nodelay());
    Ok(())
}

fn show_ttl<T>(
    notes: &mut Notes,
    socket: &T,
    get: fn(&T) -> io::Result<u32>,
    set: fn(&T, u32) -> io::Result<()>,
) {
    notes.add("at first", get(socket));
    for value in [1, 255, 0, 256, 128] {
        notes.add(&format!("set to {value}"), set(socket, value));
        notes.add("then", get(socket));
    }
}

fn ttl(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    show_ttl(notes, &client, TcpStream::ttl, TcpStream::set_ttl);
    write(&client, b"works")?;
    notes.add("read", read(&server));
    Ok(())
}

fn ttl_of_datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    show_ttl(notes, &socket, UdpSocket::ttl, UdpSocket::set_ttl);
    Ok(())
}

fn ttl_of_listener(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    show_ttl(notes, &listener, TcpListener::ttl, TcpListener::set_ttl);
    let _client = TcpStream::connect(address)?;
    notes.add("accepted", listener.accept()?.0.ttl());
    Ok(())
}

fn keep_alive(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    switch(notes, &client, sys::KEEP_ALIVE)?;
    let (socket, _) = ip.datagrams()?;
    notes.add("of datagrams", sys::set_option(&socket, sys::KEEP_ALIVE, 1));
    Ok(())
}

fn broadcast(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    switch(notes, &socket, sys::BROADCAST)?;
    socket.set_broadcast(true)?;
    notes.add("by std", socket.broadcast());
    Ok(())
}

fn reuse_address(notes: &mut Notes, ip: Ip) -> Outcome {
    switch(notes, &ip.stream_socket()?, sys::REUSE_ADDRESS)?;
    let (listener, address) = ip.listener()?;
    notes.add("std's listener", sys::option(&listener, sys::REUSE_ADDRESS));
    notes.add("std's stream", sys::option(TcpStream::connect(address)?, sys::REUSE_ADDRESS));
    notes.add("std's datagrams", sys::option(ip.datagrams()?.0, sys::REUSE_ADDRESS));
    Ok(())
}

fn show_buffers(notes: &mut Notes, fd: &impl AsFd) -> Outcome {
    for name in [sys::SEND_BUFFER, sys::RECEIVE_BUFFER] {
        notes.add("some", sys::option(fd, name)? > 0);
        notes.add("set", sys::set_option(fd, name, 32 << 10));
        notes.add("at least as much", sys::option(fd, name)? >= 32 << 10);
        // What is too little or too much is no error: as much as there may be is given.
        notes.add("set to nothing", sys::set_option(fd, name, 0));
        notes.add("still some", sys::option(fd, name)? > 0);
        notes.add("set to a lot", sys::set_option(fd, name, 1 << 30));
        notes.add("less", sys::option(fd, name)? < 1 << 30);
    }
    Ok(())
}

fn buffers(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    show_buffers(notes, &client)?;
    write(&client, b"works")?;
    notes.add("read", read(&server));
    Ok(())
}

fn buffers_of_datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    show_buffers(notes, &ip.datagrams()?.0)
}

fn type_of_service(notes: &mut Notes) -> Outcome {
    let (client, _server) = Ip::V4.pair()?;
    notes.add("at first", sys::option(&client, sys::TYPE_OF_SERVICE));
    for value in [0x10, 0xb8, 0] {
        notes.add("set", sys::set_option(&client, sys::TYPE_OF_SERVICE, value));
        notes.add("then", sys::option(&client, sys::TYPE_OF_SERVICE));
    }
    Ok(())
}

fn error(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("stream", client.take_error());
    let (listener, _) = ip.listener()?;
    notes.add("listener", listener.take_error());
    let (socket, _) = ip.datagrams()?;
    notes.add("datagrams", socket.take_error());
    notes.add("set", sys::set_option(&client, sys::ERROR, 0));
    Ok(())
}

/// What is accepted has the listener's options.
fn inherited(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    for name in [sys::KEEP_ALIVE, sys::NO_DELAY] {
        sys::set_option(&listener, name, 1)?;
    }
    sys::set_linger(&listener, Some(3))?;
    sys::set_limit(&listener, sys::Limit::Receive, 7, 0)?;
    listener.set_ttl(33)?;
    let _client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    notes.add("keep alive", sys::option(&server, sys::KEEP_ALIVE));
    notes.add("no delay", server.nodelay());
    notes.add("linger", sys::linger(&server));
    notes.add("ttl", server.ttl());
    notes.add("read limit", server.read_timeout());
    notes.add("reuse address", sys::option(&server, sys::REUSE_ADDRESS));
    Ok(())
}

fn unknown(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    let levels = [sys::ERROR.0, sys::TIME_TO_LIVE.0, sys::NO_DELAY.0];
    for (level, what) in levels.into_iter().zip(["socket", "ip", "tcp"]) {
        notes.add(&format!("get at level {what}"), sys::option(&client, (level, 9_999)));
        notes.add("set", sys::set_option(&client, (level, 9_999), 1));
    }
    Ok(())
}

fn lengths(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    for (name, what) in [(sys::KEEP_ALIVE, "keep alive"), (sys::NO_DELAY, "no delay"), (sys::ERROR, "error")]
    {
        notes.add(what, sys::option_length(&client, name));
        notes.add("too short", sys::set_short_option(&client, name));
    }
    Ok(())
}

fn for_streams_only(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    notes.add("set no delay", sys::set_option(&socket, sys::NO_DELAY, 1));
    notes.add("get", sys::option(&socket, sys::NO_DELAY));
    notes.add("linger", sys::set_linger(&socket, Some(1)));
    notes.add("then", sys::linger(&socket));
    Ok(())
}
