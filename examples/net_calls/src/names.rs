//! Addresses in text, and names that this machine knows by itself.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

use crate::notes::{Notes, Show};
use crate::support::Ip;
use crate::{Check, Outcome, Row};

pub(crate) const ROWS: [Row; 9] = [
    ("addresses_in_text", Check::Plain(addresses_in_text)),
    ("pairs", Check::Plain(pairs)),
    ("localhost", Check::Plain(localhost)),
    ("bad_text", Check::Plain(bad_text)),
    ("bad_names", Check::Plain(bad_names)),
    ("kinds_of_arguments", Check::Plain(kinds_of_arguments)),
    ("scope", Check::Plain(scope)),
    ("connect_by_name", Check::Plain(connect_by_name)),
    ("bind_by_name", Check::Plain(bind_by_name)),
];

/// All addresses with their ports, which are not chosen at random here.
fn all(addresses: impl ToSocketAddrs) -> io::Result<String> {
    let addresses: Vec<String> = addresses.to_socket_addrs()?.map(|address| address.to_string()).collect();
    Ok(addresses.join(" "))
}

fn addresses_in_text(notes: &mut Notes) -> Outcome {
    for text in ["127.0.0.1:80", "[::1]:8080", "0.0.0.0:0", "[::ffff:1.2.3.4]:65535", "[2001:DB8::A]:1"] {
        notes.add(text, all(text));
    }
    Ok(())
}

fn pairs(notes: &mut Notes) -> Outcome {
    notes.add("text", all(("10.1.2.3", 7)));
    notes.add("text v6", all(("fe80::1", 7)));
    notes.add("text in brackets", all(("[::1]", 7)).is_ok());
    notes.add("address", all((IpAddr::from([1, 2, 3, 4]), 9)));
    notes.add("string", all((String::from("4.3.2.1"), 9)));
    Ok(())
}

/// Whether a name stands for this machine, and nothing else, at the port.
fn is_here(name: &str) -> io::Result<bool> {
    let mut addresses = (name, 4711).to_socket_addrs()?.peekable();
    let some = addresses.peek().is_some();
    Ok(some && addresses.all(|address| address.ip().is_loopback() && address.port() == 4711))
}

fn localhost(notes: &mut Notes) -> Outcome {
    for name in ["localhost", "LocalHost"] {
        notes.add(name, is_here(name));
    }
    notes.add("v4 is there", ("localhost", 1).to_socket_addrs()?.any(|address| address.is_ipv4()));
    notes.add("with a port", "localhost:1".to_socket_addrs()?.all(|address| address.port() == 1));
    Ok(())
}

fn bad_text(notes: &mut Notes) -> Outcome {
    for text in ["127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http", ""] {
        notes.add(&format!("'{text}'"), all(text));
    }
    Ok(())
}

/// The kind of error alone: its text is that of the system's library.
fn kind(addresses: impl ToSocketAddrs) -> String {
    all(addresses).map_or_else(|error| format!("{:?}", error.kind()), |text| text.show())
}

fn bad_names(notes: &mut Notes) -> Outcome {
    notes.add("nothing", kind(("", 80)));
    notes.add("a colon", kind("::1"));
    notes.add("a zero", all(("local\0host", 80)));
    notes.add("a space", kind(("local host", 80)));
    notes.add("too long", kind((["a"; 300].concat(), 80)));
    notes.add("connect", TcpStream::connect(("", 80)).map_err(|error| error.kind()).is_err());
    Ok(())
}

fn kinds_of_arguments(notes: &mut Notes) -> Outcome {
    let addresses: [SocketAddr; 2] = [([1, 2, 3, 4], 5).into(), ([6, 7, 8, 9], 10).into()];
    notes.add("slice", all(&addresses[..]));
    notes.add("one", all(addresses[1]));
    notes.add("text", all("1.1.1.1:1"));
    notes.add("string", all(String::from("1.1.1.1:1")));
    Ok(())
}

fn scope(notes: &mut Notes) -> Outcome {
    let (_listener, address) = Ip::V6.listener()?;
    let text = format!("[::1%1]:{}", address.port());
    let scoped: SocketAddr = text.parse().map_err(io::Error::other)?;
    notes.add("parsed", Ok::<_, io::Error>(scoped));
    let client = TcpStream::connect(scoped)?;
    // Only link-local addresses need it (RFC 4007), so it is not kept.
    notes.add("peer", client.peer_addr());
    Ok(())
}

fn connect_by_name(notes: &mut Notes) -> Outcome {
    let (listener, address) = Ip::V4.listener()?;
    let client = TcpStream::connect(("localhost", address.port()))?;
    notes.add("peer", client.peer_addr());
    notes.add("accept", listener.accept().map(|(_, peer)| peer));
    let (socket, _) = Ip::V4.datagrams()?;
    let (receiver, address) = Ip::V4.datagrams()?;
    notes.add("send to", socket.send_to(b"a", ("127.0.0.1", address.port())));
    notes.add("connect", socket.connect(("localhost", address.port())));
    drop(receiver);
    Ok(())
}

fn bind_by_name(notes: &mut Notes) -> Outcome {
    let listener = TcpListener::bind(("localhost", 0))?;
    notes.add("local is loopback", listener.local_addr()?.ip().is_loopback());
    let foreign = [Ip::V4.foreign(0), Ip::V4.loopback(0)];
    notes.add("second of two", TcpListener::bind(&foreign[..])?.local_addr());
    notes.add("datagrams", UdpSocket::bind(&foreign[..])?.local_addr());
    Ok(())
}
