//! Sockets as descriptors: calls that are not only theirs, and calls for the wrong thing.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use crate::notes::Notes;
use crate::support::{Ip, join, read, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 14] = [
    ("read_and_write", Check::Versions(read_and_write)),
    ("send_and_receive", Check::Versions(send_and_receive)),
    ("duplicates", Check::Versions(duplicates)),
    ("flags", Check::Versions(flags)),
    ("flags_of_fresh", Check::Versions(flags_of_fresh)),
    ("ioctl_nonblocking", Check::Versions(ioctl_nonblocking)),
    ("no_socket", Check::Plain(no_socket)),
    ("not_open", Check::Plain(not_open)),
    ("unknown_kinds", Check::Plain(unknown_kinds)),
    ("back_and_forth", Check::Versions(back_and_forth)),
    ("numbers_are_used_again", Check::Versions(numbers_are_used_again)),
    ("all_open", Check::Versions(all_open)),
    ("given_back", Check::Versions(given_back)),
    ("closed_while_read", Check::Versions(closed_while_read)),
];

fn read_and_write(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("write", sys::write(&client, b"stream"));
    let mut buffer = [0; 64];
    notes.add("read", sys::read(&server, &mut buffer));
    let (one, other) = ip.connected_datagrams()?;
    notes.add("write a datagram", sys::write(&one, b"datagram"));
    notes.add("read three bytes", sys::read(&other, &mut buffer[..3]));
    other.set_nonblocking(true)?;
    notes.add("read the rest", sys::read(&other, &mut buffer));
    Ok(())
}

fn send_and_receive(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("send", sys::send(&client, b"abc"));
    settle();
    let mut buffer = [0; 64];
    notes.add("peek", sys::receive(&server, &mut buffer, sys::MSG_PEEK));
    notes.add("receive", sys::receive(&server, &mut buffer, 0));
    // A stream has its peer; the address that is given counts for nothing.
    let (_, elsewhere) = ip.listener()?;
    notes.add("send to", sys::send_to(&client, b"de", elsewhere));
    notes.add("received", read(&server));
    Ok(())
}

fn duplicates(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let copy = sys::dup(&client)?;
    notes.add("another number", copy.as_raw_fd() != client.as_raw_fd());
    drop(client);
    notes.add("write", sys::write(&copy, b"still open"));
    notes.add("read", read(&server));
    drop(copy);
    notes.add("read after the last", read(&server));
    Ok(())
}

/// Those flags that sockets have.
fn show_flags(fd: &OwnedFd) -> std::io::Result<String> {
    let flags = sys::fcntl(fd, sys::F_GETFL, 0)?;
    let word = |flag, word| if flags & flag == flag { word } else { "" };
    Ok(format!("{}{}", word(sys::O_RDWR, "read-write"), word(sys::O_NONBLOCK, "+nonblocking")))
}

fn flags(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let copy = client.try_clone()?;
    let fd = OwnedFd::from(client);
    notes.add("at first", show_flags(&fd));
    notes.add("set", sys::fcntl(&fd, sys::F_SETFL, sys::O_NONBLOCK));
    notes.add("then", show_flags(&fd));
    notes.add("read", read(&copy));
    notes.add("set", sys::fcntl(&fd, sys::F_SETFL, 0));
    notes.add("then", show_flags(&fd));
    copy.set_nonblocking(true)?;
    notes.add("set by std", show_flags(&fd));
    notes.add("the other side's", show_flags(&OwnedFd::from(server)));
    notes.add("unknown command", sys::fcntl(&fd, 12_345, 0));
    Ok(())
}

fn flags_of_fresh(notes: &mut Notes, ip: Ip) -> Outcome {
    for kind in [sys::SOCK_STREAM, sys::SOCK_DGRAM] {
        notes.add("fresh", show_flags(&sys::socket(ip.family(), kind)?));
        let socket = sys::socket(ip.family(), kind | sys::SOCK_NONBLOCK)?;
        notes.add("asked for", show_flags(&socket));
    }
    Ok(())
}

fn ioctl_nonblocking(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("set", sys::set_nonblocking(&client, true));
    notes.add("read", read(&client));
    notes.add("flags", show_flags(&sys::dup(&client)?));
    notes.add("clear", sys::set_nonblocking(&client, false));
    notes.add("flags", show_flags(&OwnedFd::from(client)));
    Ok(())
}

fn no_socket(notes: &mut Notes) -> Outcome {
    let counter = sys::eventfd()?;
    notes.add("bind", sys::bind(&counter, Ip::V4.loopback(0)));
    notes.add("connect", sys::connect(&counter, Some(Ip::V4.loopback(1))));
    notes.add("listen", sys::listen(&counter, 1));
    notes.add("shutdown", sys::shutdown(&counter, sys::SHUT_RDWR));
    notes.add("send", sys::send(&counter, b"a"));
    notes.add("receive", sys::receive(&counter, &mut [0; 8], 0));
    notes.add("option", sys::option(&counter, sys::ERROR));
    notes.add("set option", sys::set_option(&counter, sys::NO_DELAY, 1));
    let stream = TcpStream::from(sys::dup(&counter)?);
    notes.add("local", stream.local_addr());
    notes.add("peer", stream.peer_addr());
    notes.add("accept", TcpListener::from(counter).accept().map(drop));
    Ok(())
}

fn not_open(notes: &mut Notes) -> Outcome {
    let nowhere = sys::nowhere();
    notes.add("bind", sys::bind(nowhere, Ip::V4.loopback(0)));
    notes.add("connect", sys::connect(nowhere, Some(Ip::V4.loopback(1))));
    notes.add("listen", sys::listen(nowhere, 1));
    notes.add("shutdown", sys::shutdown(nowhere, sys::SHUT_RD));
    notes.add("send", sys::send(nowhere, b"a"));
    notes.add("receive", sys::receive(nowhere, &mut [0; 8], 0));
    notes.add("option", sys::option(nowhere, sys::ERROR));
    notes.add("flags", sys::fcntl(nowhere, sys::F_GETFL, 0));
    notes.add("nonblocking", sys::set_nonblocking(nowhere, true));
    notes.add("dup", sys::dup(nowhere).map(drop));
    Ok(())
}

fn unknown_kinds(notes: &mut Notes) -> Outcome {
    notes.add("family", sys::socket(77, sys::SOCK_STREAM).map(drop));
    notes.add("kind", sys::socket(sys::V4, 0o17).map(drop));
    notes.add("negative family", sys::socket(-1, sys::SOCK_STREAM).map(drop));
    Ok(())
}

fn back_and_forth(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let stream = TcpStream::from(OwnedFd::from(client));
    write(&stream, b"as before")?;
    notes.add("read", read(&server));
    let (socket, _) = ip.datagrams()?;
    let number = socket.into_raw_fd();
    // What was given away is taken back.
    let socket = UdpSocket::from(sys::adopt(number));
    notes.add("local", socket.local_addr());
    Ok(())
}

fn numbers_are_used_again(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    let first = socket.as_raw_fd();
    drop(socket);
    let largest = (0..300)
        .map(|_| ip.datagrams().map(|(socket, _)| socket.as_raw_fd()))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .max();
    notes.add("no number is lost", largest.is_some_and(|largest| largest <= first + 8));
    Ok(())
}

/// Opens descriptors until there is none left, and notes why.
fn open_all(notes: &mut Notes, copied: &TcpListener) -> std::io::Result<Vec<OwnedFd>> {
    sys::limit_descriptors()?;
    let mut copies = Vec::new();
    loop {
        match sys::dup(copied) {
            Ok(copy) => copies.push(copy),
            Err(error) => {
                notes.add("all are open", Err::<(), _>(error));
                return Ok(copies);
            }
        }
    }
}

/// Who waits in a listener's queue stays there if there is no descriptor for it.
fn all_open(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    write(&client, b"stays")?;
    let mut copies = open_all(notes, &listener)?;
    for _ in 0..2 {
        notes.add("accept", listener.accept().map(drop));
    }
    notes.add("socket", ip.stream_socket().map(drop));
    copies.pop();
    let (server, _) = listener.accept()?;
    notes.add("read", read(&server));
    // It does not wait for what it could not take.
    notes.add("accept", listener.accept().map(drop));
    Ok(())
}

/// A call that fails keeps no descriptor for itself.
fn given_back(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, _) = ip.listener()?;
    let mut copies = open_all(notes, &listener)?;
    copies.pop();
    listener.set_nonblocking(true)?;
    for _ in 0..2 {
        notes.add("accept", listener.accept().map(drop));
    }
    notes.add("copy", sys::dup(&listener).map(drop));
    Ok(())
}

/// Who reads keeps what is read from alive.
fn closed_while_read(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let copy = server.try_clone()?;
    let result = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&server));
        settle();
        drop(copy);
        write(&client, b"arrives")?;
        Ok::<_, std::io::Error>(join(reader))
    })?;
    notes.add("read", result);
    Ok(())
}
