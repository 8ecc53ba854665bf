//! Addresses as text, and names that are resolved locally.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

use crate::record::{Show, Transcript};
use crate::support::IpVersion;
use crate::{Check, CheckResult, NamedCheck};

pub(crate) const ROWS: [NamedCheck; 9] = [
    ("addresses_in_text", Check::Once(addresses_in_text)),
    ("pairs", Check::Once(pairs)),
    ("localhost", Check::Once(localhost)),
    ("bad_text", Check::Once(bad_text)),
    ("bad_names", Check::Once(bad_names)),
    ("kinds_of_arguments", Check::Once(kinds_of_arguments)),
    ("scope", Check::Once(scope)),
    ("connect_by_name", Check::Once(connect_by_name)),
    ("bind_by_name", Check::Once(bind_by_name)),
];

/// All addresses with their ports, which are given explicitly here.
fn all(addresses: impl ToSocketAddrs) -> io::Result<String> {
    let addresses: Vec<String> = addresses.to_socket_addrs()?.map(|address| address.to_string()).collect();
    Ok(addresses.join(" "))
}

fn addresses_in_text(record: &mut Transcript) -> CheckResult {
    for text in ["127.0.0.1:80", "[::1]:8080", "0.0.0.0:0", "[::ffff:1.2.3.4]:65535", "[2001:DB8::A]:1"] {
        record.add(text, all(text));
    }
    Ok(())
}

fn pairs(record: &mut Transcript) -> CheckResult {
    record.add("text", all(("10.1.2.3", 7)));
    record.add("text v6", all(("fe80::1", 7)));
    record.add("text in brackets", all(("[::1]", 7)).is_ok());
    record.add("address", all((IpAddr::from([1, 2, 3, 4]), 9)));
    record.add("string", all((String::from("4.3.2.1"), 9)));
    Ok(())
}

/// Returns true if a name resolves to loopback addresses only.
fn is_here(name: &str) -> io::Result<bool> {
    let mut addresses = (name, 4711).to_socket_addrs()?.peekable();
    let some = addresses.peek().is_some();
    Ok(some && addresses.all(|address| address.ip().is_loopback() && address.port() == 4711))
}

fn localhost(record: &mut Transcript) -> CheckResult {
    for name in ["localhost", "LocalHost"] {
        record.add(name, is_here(name));
    }
    record.add("v4 is there", ("localhost", 1).to_socket_addrs()?.any(|address| address.is_ipv4()));
    record.add("with a port", "localhost:1".to_socket_addrs()?.all(|address| address.port() == 1));
    Ok(())
}

fn bad_text(record: &mut Transcript) -> CheckResult {
    for text in ["127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http", ""] {
        record.add(&format!("'{text}'"), all(text));
    }
    Ok(())
}

/// The error's kind only: its text is the C library's.
fn kind(addresses: impl ToSocketAddrs) -> String {
    all(addresses).map_or_else(|error| format!("{:?}", error.kind()), |text| text.show())
}

fn bad_names(record: &mut Transcript) -> CheckResult {
    record.add("nothing", kind(("", 80)));
    record.add("a colon", kind("::1"));
    record.add("a zero", all(("local\0host", 80)));
    record.add("a space", kind(("local host", 80)));
    record.add("too long", kind((["a"; 300].concat(), 80)));
    record.add("connect", TcpStream::connect(("", 80)).map_err(|error| error.kind()).is_err());
    Ok(())
}

fn kinds_of_arguments(record: &mut Transcript) -> CheckResult {
    let addresses: [SocketAddr; 2] = [([1, 2, 3, 4], 5).into(), ([6, 7, 8, 9], 10).into()];
    record.add("slice", all(&addresses[..]));
    record.add("one", all(addresses[1]));
    record.add("text", all("1.1.1.1:1"));
    record.add("string", all(String::from("1.1.1.1:1")));
    Ok(())
}

fn scope(record: &mut Transcript) -> CheckResult {
    let (_listener, address) = IpVersion::V6.listener()?;
    let text = format!("[::1%1]:{}", address.port());
    let scoped: SocketAddr = text.parse().map_err(io::Error::other)?;
    record.add("parsed", Ok::<_, io::Error>(scoped));
    let client = TcpStream::connect(scoped)?;
    // Only link-local addresses need a scope ID (RFC 4007), so it is dropped.
    record.add("peer", client.peer_addr());
    Ok(())
}

fn connect_by_name(record: &mut Transcript) -> CheckResult {
    let (listener, address) = IpVersion::V4.listener()?;
    let client = TcpStream::connect(("localhost", address.port()))?;
    record.add("peer", client.peer_addr());
    record.add("accept", listener.accept().map(|(_, peer)| peer));
    let (socket, _) = IpVersion::V4.datagrams()?;
    let (receiver, address) = IpVersion::V4.datagrams()?;
    record.add("send to", socket.send_to(b"a", ("127.0.0.1", address.port())));
    record.add("connect", socket.connect(("localhost", address.port())));
    drop(receiver);
    Ok(())
}

fn bind_by_name(record: &mut Transcript) -> CheckResult {
    let listener = TcpListener::bind(("localhost", 0))?;
    record.add("local is loopback", listener.local_addr()?.ip().is_loopback());
    let foreign = [IpVersion::V4.foreign(0), IpVersion::V4.loopback(0)];
    record.add("second of two", TcpListener::bind(&foreign[..])?.local_addr());
    record.add("datagrams", UdpSocket::bind(&foreign[..])?.local_addr());
    Ok(())
}
