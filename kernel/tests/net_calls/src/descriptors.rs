//! Sockets as file descriptors: generic calls, and calls on the wrong kind of descriptor.
//!
//! `read`, `write`, `dup`, `fcntl` and `ioctl` work on sockets as on other descriptors. Calls for sockets
//! fail with `ENOTSOCK` on a descriptor of another object, and with `EBADF` on a closed one. The rows also
//! check that descriptor numbers are used again, lowest first.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, join, read, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 16] = [
    ("read_and_write", Check::PerVersion(read_and_write)),
    ("send_and_receive", Check::PerVersion(send_and_receive)),
    ("calls_that_do_not_wait", Check::PerVersion(calls_that_do_not_wait)),
    ("calls_that_wait_for_all", Check::PerVersion(calls_that_wait_for_all)),
    ("duplicates", Check::PerVersion(duplicates)),
    ("flags", Check::PerVersion(flags)),
    ("flags_of_fresh", Check::PerVersion(flags_of_fresh)),
    ("ioctl_nonblocking", Check::PerVersion(ioctl_nonblocking)),
    ("no_socket", Check::Once(no_socket)),
    ("not_open", Check::Once(not_open)),
    ("unknown_kinds", Check::Once(unknown_kinds)),
    ("back_and_forth", Check::PerVersion(back_and_forth)),
    ("numbers_are_used_again", Check::PerVersion(numbers_are_used_again)),
    ("all_open", Check::PerVersion(all_open)),
    ("given_back", Check::PerVersion(given_back)),
    ("closed_while_read", Check::PerVersion(closed_while_read)),
];

fn read_and_write(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("write", sys::write(&client, b"stream"));
    let mut buffer = [0; 64];
    record.add("read", sys::read(&server, &mut buffer));
    let (one, other) = ip.connected_datagrams()?;
    record.add("write a datagram", sys::write(&one, b"datagram"));
    record.add("read three bytes", sys::read(&other, &mut buffer[..3]));
    other.set_nonblocking(true)?;
    record.add("read the rest", sys::read(&other, &mut buffer));
    Ok(())
}

fn send_and_receive(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("send", sys::send(&client, b"abc"));
    settle();
    let mut buffer = [0; 64];
    record.add("peek", sys::receive(&server, &mut buffer, sys::MSG_PEEK));
    record.add("receive", sys::receive(&server, &mut buffer, 0));
    // A stream has a peer; the given address is ignored.
    let (_, elsewhere) = ip.listener()?;
    record.add("send to", sys::send_to(&client, b"de", elsewhere));
    record.add("received", read(&server));
    Ok(())
}

/// `MSG_DONTWAIT`, for sockets that are blocking.
fn calls_that_do_not_wait(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let mut buffer = [0; 64];
    record.add("receive", sys::receive(&server, &mut buffer, sys::MSG_DONTWAIT));
    record.add("receive nothing", sys::receive(&server, &mut [], sys::MSG_DONTWAIT));
    record.add("send", sys::send_with(&client, b"abc", sys::MSG_DONTWAIT | sys::MSG_NOSIGNAL));
    settle();
    record.add("peek", sys::receive(&server, &mut buffer, sys::MSG_PEEK | sys::MSG_DONTWAIT));
    record.add("then", sys::receive(&server, &mut buffer, sys::MSG_DONTWAIT | sys::MSG_WAITALL));
    let full = loop {
        if let Err(error) = sys::send_with(&client, &[7; 1 << 16], sys::MSG_DONTWAIT) {
            break Err::<(), _>(error);
        }
    };
    record.add("send until it is full", full);
    let (one, _other) = ip.connected_datagrams()?;
    record.add("receive a datagram", sys::receive(&one, &mut buffer, sys::MSG_DONTWAIT));
    Ok(())
}

/// `MSG_WAITALL`, and a call that asks for no bytes.
fn calls_that_wait_for_all(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let mut buffer = [0; 8];
    write(&client, b"some")?;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            settle();
            write(&client, b"-and-more")
        });
        record.add("receive", sys::receive(&server, &mut buffer, sys::MSG_WAITALL));
        join(writer)
    })?;
    record.add("received", String::from_utf8_lossy(&buffer).into_owned());
    server.set_read_timeout(Some(Duration::from_millis(100)))?;
    record.add("receive until the timeout", sys::receive(&server, &mut buffer, sys::MSG_WAITALL));
    record.add("receive without data", sys::receive(&server, &mut buffer, sys::MSG_WAITALL));
    record.add("receive nothing", sys::receive(&server, &mut [], 0));
    write(&client, b"end")?;
    drop(client);
    record.add("receive until the end", sys::receive(&server, &mut buffer, sys::MSG_WAITALL));
    let (one, other) = ip.connected_datagrams()?;
    record.add("send a datagram", sys::send(&one, b"datagram"));
    record.add("receive it", sys::receive(&other, &mut [0; 64], sys::MSG_WAITALL));
    Ok(())
}

fn duplicates(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let copy = sys::dup(&client)?;
    record.add("another number", copy.as_raw_fd() != client.as_raw_fd());
    drop(client);
    record.add("write", sys::write(&copy, b"still open"));
    record.add("read", read(&server));
    drop(copy);
    record.add("read after the last", read(&server));
    Ok(())
}

/// The status flags that sockets have.
fn show_flags(fd: &OwnedFd) -> std::io::Result<String> {
    let flags = sys::fcntl(fd, sys::F_GETFL, 0)?;
    let word = |flag, word| if flags & flag == flag { word } else { "" };
    Ok(format!("{}{}", word(sys::O_RDWR, "read-write"), word(sys::O_NONBLOCK, "+nonblocking")))
}

fn flags(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let copy = client.try_clone()?;
    let fd = OwnedFd::from(client);
    record.add("at first", show_flags(&fd));
    record.add("set", sys::fcntl(&fd, sys::F_SETFL, sys::O_NONBLOCK));
    record.add("then", show_flags(&fd));
    record.add("read", read(&copy));
    record.add("set", sys::fcntl(&fd, sys::F_SETFL, 0));
    record.add("then", show_flags(&fd));
    copy.set_nonblocking(true)?;
    record.add("set by std", show_flags(&fd));
    record.add("the other side's", show_flags(&OwnedFd::from(server)));
    record.add("unknown command", sys::fcntl(&fd, 12_345, 0));
    Ok(())
}

fn flags_of_fresh(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    for kind in [sys::SOCK_STREAM, sys::SOCK_DGRAM] {
        record.add("fresh", show_flags(&sys::socket(ip.family(), kind)?));
        let socket = sys::socket(ip.family(), kind | sys::SOCK_NONBLOCK)?;
        record.add("asked for", show_flags(&socket));
    }
    Ok(())
}

fn ioctl_nonblocking(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("set", sys::set_nonblocking(&client, true));
    record.add("read", read(&client));
    record.add("flags", show_flags(&sys::dup(&client)?));
    record.add("clear", sys::set_nonblocking(&client, false));
    record.add("flags", show_flags(&OwnedFd::from(client)));
    Ok(())
}

fn no_socket(record: &mut Transcript) -> CheckResult {
    let counter = sys::eventfd()?;
    record.add("bind", sys::bind(&counter, IpVersion::V4.loopback(0)));
    record.add("connect", sys::connect(&counter, Some(IpVersion::V4.loopback(1))));
    record.add("listen", sys::listen(&counter, 1));
    record.add("shutdown", sys::shutdown(&counter, sys::SHUT_RDWR));
    record.add("send", sys::send(&counter, b"a"));
    record.add("receive", sys::receive(&counter, &mut [0; 8], 0));
    record.add("option", sys::option(&counter, sys::ERROR));
    record.add("set option", sys::set_option(&counter, sys::NO_DELAY, 1));
    let stream = TcpStream::from(sys::dup(&counter)?);
    record.add("local", stream.local_addr());
    record.add("peer", stream.peer_addr());
    record.add("accept", TcpListener::from(counter).accept().map(drop));
    Ok(())
}

fn not_open(record: &mut Transcript) -> CheckResult {
    let closed_descriptor = sys::closed_descriptor();
    record.add("bind", sys::bind(closed_descriptor, IpVersion::V4.loopback(0)));
    record.add("connect", sys::connect(closed_descriptor, Some(IpVersion::V4.loopback(1))));
    record.add("listen", sys::listen(closed_descriptor, 1));
    record.add("shutdown", sys::shutdown(closed_descriptor, sys::SHUT_RD));
    record.add("send", sys::send(closed_descriptor, b"a"));
    record.add("receive", sys::receive(closed_descriptor, &mut [0; 8], 0));
    record.add("option", sys::option(closed_descriptor, sys::ERROR));
    record.add("flags", sys::fcntl(closed_descriptor, sys::F_GETFL, 0));
    record.add("nonblocking", sys::set_nonblocking(closed_descriptor, true));
    record.add("dup", sys::dup(closed_descriptor).map(drop));
    Ok(())
}

fn unknown_kinds(record: &mut Transcript) -> CheckResult {
    record.add("family", sys::socket(77, sys::SOCK_STREAM).map(drop));
    record.add("kind", sys::socket(sys::V4, 0o17).map(drop));
    record.add("negative family", sys::socket(-1, sys::SOCK_STREAM).map(drop));
    Ok(())
}

fn back_and_forth(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let stream = TcpStream::from(OwnedFd::from(client));
    write(&stream, b"as before")?;
    record.add("read", read(&server));
    let (socket, _) = ip.datagrams()?;
    let number = socket.into_raw_fd();
    // The descriptor is converted back.
    let socket = UdpSocket::from(sys::adopt(number));
    record.add("local", socket.local_addr());
    Ok(())
}

fn numbers_are_used_again(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    let first = socket.as_raw_fd();
    drop(socket);
    let largest = (0..300)
        .map(|_| ip.datagrams().map(|(socket, _)| socket.as_raw_fd()))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .max();
    record.add("no number is lost", largest.is_some_and(|largest| largest <= first + 8));
    Ok(())
}

/// Opens descriptors until none is left, and records the error.
fn open_all(record: &mut Transcript, copied: &TcpListener) -> std::io::Result<Vec<OwnedFd>> {
    sys::limit_descriptors()?;
    let mut copies = Vec::new();
    loop {
        match sys::dup(copied) {
            Ok(copy) => copies.push(copy),
            Err(error) => {
                record.add("all are open", Err::<(), _>(error));
                return Ok(copies);
            }
        }
    }
}

/// Number of messages on each connection while sockets are requested for which there is no descriptor.
const MESSAGES: usize = 500;

/// Requests sockets while threads send over connections. Returns the first result other than `EMFILE`, or
/// else `EMFILE`. If there is no descriptor for a socket, the network stack that carries the traffic closes
/// the socket again.
fn socket_beside_traffic(ip: IpVersion, connections: &[(TcpStream, TcpStream)]) -> std::io::Result<()> {
    let send = |(client, server): &(TcpStream, TcpStream)| {
        (0..MESSAGES).try_for_each(|_| {
            write(client, b"traffic")?;
            read(server).map(drop)
        })
    };
    thread::scope(|scope| {
        let senders: Vec<_> =
            connections.iter().map(|connection| scope.spawn(move || send(connection))).collect();
        let answer = loop {
            let answer = ip.stream_socket().map(drop);
            if !is_refused(&answer) || senders.iter().all(|sender| sender.is_finished()) {
                break answer;
            }
        };
        senders.into_iter().try_for_each(join)?;
        answer
    })
}

fn is_refused(answer: &std::io::Result<()>) -> bool {
    answer.as_ref().is_err_and(|error| error.raw_os_error() == Some(sys::EMFILE))
}

/// A connection stays in the accept queue if there is no descriptor for it.
fn all_open(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let connections = (0..4).map(|_| ip.pair()).collect::<Result<Vec<_>, _>>()?;
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    write(&client, b"stays")?;
    let mut copies = open_all(record, &listener)?;
    for _ in 0..2 {
        record.add("accept", listener.accept().map(drop));
    }
    record.add("socket", ip.stream_socket().map(drop));
    record.add("beside traffic", socket_beside_traffic(ip, &connections));
    copies.pop();
    let (server, _) = listener.accept()?;
    record.add("read", read(&server));
    // A failed `accept` does not block.
    record.add("accept", listener.accept().map(drop));
    Ok(())
}

/// A failed call leaks no descriptor.
fn given_back(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, _) = ip.listener()?;
    let mut copies = open_all(record, &listener)?;
    copies.pop();
    listener.set_nonblocking(true)?;
    for _ in 0..2 {
        record.add("accept", listener.accept().map(drop));
    }
    record.add("copy", sys::dup(&listener).map(drop));
    Ok(())
}

/// A blocked read keeps the socket open.
fn closed_while_read(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let copy = server.try_clone()?;
    let result = thread::scope(|scope| {
        let reader = scope.spawn(|| read(&server));
        settle();
        drop(copy);
        write(&client, b"arrives")?;
        Ok::<_, std::io::Error>(join(reader))
    })?;
    record.add("read", result);
    Ok(())
}
