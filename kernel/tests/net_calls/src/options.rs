//! Socket options: defaults, valid values, and the sockets that have them.
//!
//! Each row prints the default of an option, sets valid and invalid values, and prints the value read back or
//! the error. The kernel returns the same values as Linux, since programs compare the value read back with
//! the one that they have set.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use crate::record::Transcript;
use crate::support::{IpVersion, read, settle, write};
use crate::sys::OptionId;
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 17] = [
    ("no_delay", Check::PerVersion(no_delay)),
    ("ttl", Check::PerVersion(ttl)),
    ("ttl_of_datagrams", Check::PerVersion(ttl_of_datagrams)),
    ("ttl_of_listener", Check::PerVersion(ttl_of_listener)),
    ("keep_alive", Check::PerVersion(keep_alive)),
    ("broadcast", Check::PerVersion(broadcast)),
    ("reuse_address", Check::PerVersion(reuse_address)),
    ("buffers", Check::PerVersion(buffers)),
    ("buffers_of_datagrams", Check::PerVersion(buffers_of_datagrams)),
    ("type_of_service", Check::Once(type_of_service)),
    ("error", Check::PerVersion(error)),
    ("inherited", Check::PerVersion(inherited)),
    ("unknown", Check::PerVersion(unknown)),
    ("user_timeout", Check::PerVersion(user_timeout)),
    ("congestion", Check::PerVersion(congestion)),
    ("lengths", Check::PerVersion(lengths)),
    ("for_streams_only", Check::PerVersion(for_streams_only)),
];

/// Records an integer option: its default, and after setting it.
fn switch(record: &mut Transcript, fd: &impl AsFd, name: OptionId) -> CheckResult {
    record.add("at first", sys::option(fd, name));
    for value in [1, 0, 5, -1] {
        sys::set_option(fd, name, value)?;
        record.add(&format!("set to {value}"), sys::option(fd, name));
    }
    Ok(())
}

fn no_delay(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("client", client.nodelay());
    record.add("server", server.nodelay());
    for value in [true, false, true] {
        record.add("set", client.set_nodelay(value));
        record.add("then", client.nodelay());
    }
    for byte in *b"abc" {
        write(&client, &[byte])?;
    }
    settle();
    record.add("small writes arrive", read(&server));
    let fresh = TcpStream::from(ip.stream_socket()?);
    record.add("unconnected", fresh.set_nodelay(true));
    record.add("then", fresh.nodelay());
    Ok(())
}

fn show_ttl<T>(
    record: &mut Transcript,
    socket: &T,
    get: fn(&T) -> io::Result<u32>,
    set: fn(&T, u32) -> io::Result<()>,
) {
    record.add("at first", get(socket));
    for value in [1, 255, 0, 256, 128] {
        record.add(&format!("set to {value}"), set(socket, value));
        record.add("then", get(socket));
    }
}

fn ttl(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    show_ttl(record, &client, TcpStream::ttl, TcpStream::set_ttl);
    write(&client, b"works")?;
    record.add("read", read(&server));
    Ok(())
}

fn ttl_of_datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    show_ttl(record, &socket, UdpSocket::ttl, UdpSocket::set_ttl);
    Ok(())
}

fn ttl_of_listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    show_ttl(record, &listener, TcpListener::ttl, TcpListener::set_ttl);
    let _client = TcpStream::connect(address)?;
    record.add("accepted", listener.accept()?.0.ttl());
    Ok(())
}

fn keep_alive(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    switch(record, &client, sys::KEEP_ALIVE)?;
    let (socket, _) = ip.datagrams()?;
    record.add("of datagrams", sys::set_option(&socket, sys::KEEP_ALIVE, 1));
    Ok(())
}

fn broadcast(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    switch(record, &socket, sys::BROADCAST)?;
    socket.set_broadcast(true)?;
    record.add("by std", socket.broadcast());
    Ok(())
}

fn reuse_address(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    switch(record, &ip.stream_socket()?, sys::REUSE_ADDRESS)?;
    let (listener, address) = ip.listener()?;
    record.add("std's listener", sys::option(&listener, sys::REUSE_ADDRESS));
    record.add("std's stream", sys::option(TcpStream::connect(address)?, sys::REUSE_ADDRESS));
    record.add("std's datagrams", sys::option(ip.datagrams()?.0, sys::REUSE_ADDRESS));
    Ok(())
}

fn show_buffers(record: &mut Transcript, fd: &impl AsFd) -> CheckResult {
    for name in [sys::SEND_BUFFER, sys::RECEIVE_BUFFER] {
        record.add("some", sys::option(fd, name)? > 0);
        record.add("set", sys::set_option(fd, name, 32 << 10));
        record.add("at least as much", sys::option(fd, name)? >= 32 << 10);
        // Values that are too small or too large are clamped, without an error.
        record.add("set to nothing", sys::set_option(fd, name, 0));
        record.add("still some", sys::option(fd, name)? > 0);
        record.add("set to a lot", sys::set_option(fd, name, 1 << 30));
        record.add("less", sys::option(fd, name)? < 1 << 30);
    }
    Ok(())
}

fn buffers(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    show_buffers(record, &client)?;
    write(&client, b"works")?;
    record.add("read", read(&server));
    Ok(())
}

fn buffers_of_datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    show_buffers(record, &ip.datagrams()?.0)
}

fn type_of_service(record: &mut Transcript) -> CheckResult {
    let (client, _server) = IpVersion::V4.pair()?;
    record.add("at first", sys::option(&client, sys::TYPE_OF_SERVICE));
    for value in [0x10, 0xb8, 0] {
        record.add("set", sys::set_option(&client, sys::TYPE_OF_SERVICE, value));
        record.add("then", sys::option(&client, sys::TYPE_OF_SERVICE));
    }
    Ok(())
}

fn error(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("stream", client.take_error());
    let (listener, _) = ip.listener()?;
    record.add("listener", listener.take_error());
    let (socket, _) = ip.datagrams()?;
    record.add("datagrams", socket.take_error());
    record.add("set", sys::set_option(&client, sys::ERROR, 0));
    Ok(())
}

/// An accepted connection inherits the listener's options.
fn inherited(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    for name in [sys::KEEP_ALIVE, sys::NO_DELAY] {
        sys::set_option(&listener, name, 1)?;
    }
    sys::set_linger(&listener, Some(3))?;
    sys::set_timeout(&listener, sys::Timeout::Receive, 7, 0)?;
    listener.set_ttl(33)?;
    let _client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    record.add("keep alive", sys::option(&server, sys::KEEP_ALIVE));
    record.add("no delay", server.nodelay());
    record.add("linger", sys::linger(&server));
    record.add("ttl", server.ttl());
    record.add("read limit", server.read_timeout());
    record.add("reuse address", sys::option(&server, sys::REUSE_ADDRESS));
    Ok(())
}

fn unknown(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    let levels = [sys::ERROR.0, sys::TIME_TO_LIVE.0, sys::NO_DELAY.0];
    for (level, what) in levels.into_iter().zip(["socket", "ip", "tcp"]) {
        record.add(&format!("get at level {what}"), sys::option(&client, (level, 9_999)));
        record.add("set", sys::set_option(&client, (level, 9_999), 1));
    }
    Ok(())
}

fn user_timeout(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("at first", sys::option(&client, sys::USER_TIMEOUT));
    for value in [5_000, -1, 0, 70_000] {
        record.add(&format!("set to {value}"), sys::set_option(&client, sys::USER_TIMEOUT, value));
        record.add("then", sys::option(&client, sys::USER_TIMEOUT));
    }
    Ok(())
}

fn congestion(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    for name in ["reno", "cubic", "no such", "", "reno\0behind", "cubic"] {
        record.add(&format!("set to {name:?}"), sys::set_name(&client, sys::CONGESTION, name));
        record.add("then", sys::name(&client, sys::CONGESTION));
    }
    write(&client, b"sent")?;
    record.add("received", read(&server));
    let fresh = TcpStream::from(ip.stream_socket()?);
    record.add("unconnected", sys::set_name(&fresh, sys::CONGESTION, "reno"));
    record.add("then", sys::name(&fresh, sys::CONGESTION));
    record.add("of datagrams", sys::set_name(&ip.datagrams()?.0, sys::CONGESTION, "reno"));
    Ok(())
}

fn lengths(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    for (name, what) in [(sys::KEEP_ALIVE, "keep alive"), (sys::NO_DELAY, "no delay"), (sys::ERROR, "error")]
    {
        record.add(what, sys::option_length(&client, name));
        record.add("too short", sys::set_short_option(&client, name));
        record.add("at an odd address", sys::option_at_odd_address(&client, name));
    }
    Ok(())
}

fn for_streams_only(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    record.add("set no delay", sys::set_option(&socket, sys::NO_DELAY, 1));
    record.add("get", sys::option(&socket, sys::NO_DELAY));
    record.add("linger", sys::set_linger(&socket, Some(1)));
    record.add("then", sys::linger(&socket));
    Ok(())
}
