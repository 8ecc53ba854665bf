//! Connecting, and why it fails.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, at_once, read, takes, write};
use crate::{Check, CheckResult, NamedCheck, sys};

/// A timeout that is never reached.
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const ROWS: [NamedCheck; 18] = [
    ("refused", Check::PerVersion(refused)),
    ("refused_within_a_limit", Check::PerVersion(refused_within_a_limit)),
    ("refused_twice", Check::PerVersion(refused_twice)),
    ("port_0", Check::PerVersion(port_0)),
    ("any_is_this_machine", Check::PerVersion(any_is_this_machine)),
    ("multicast_address", Check::PerVersion(multicast_address)),
    ("broadcast_address", Check::Once(broadcast_address)),
    ("link_local_address", Check::Once(link_local_address)),
    ("within_a_limit", Check::PerVersion(within_a_limit)),
    ("no_time", Check::PerVersion(no_time)),
    ("limit_passes", Check::PerVersion(limit_passes)),
    ("send_limit_passes", Check::PerVersion(send_limit_passes)),
    ("already_connected", Check::PerVersion(already_connected)),
    ("listener", Check::PerVersion(listener)),
    ("itself", Check::PerVersion(itself)),
    ("first_address_that_answers", Check::PerVersion(first_address_that_answers)),
    ("of_the_other_version", Check::Once(of_the_other_version)),
    ("again_after_close", Check::PerVersion(again_after_close)),
];

fn refused(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let address = ip.silent_address()?;
    let (result, time) = at_once(|| TcpStream::connect(address).map(drop));
    record.add("connect", result);
    record.add("answer", time);
    Ok(())
}

fn refused_within_a_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let address = ip.silent_address()?;
    let (result, time) = at_once(|| TcpStream::connect_timeout(&address, LONG_TIMEOUT).map(drop));
    record.add("connect", result);
    record.add("answer", time);
    Ok(())
}

/// A socket can connect again after a refused connection.
fn refused_twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpStream::from(ip.stream_socket()?);
    let address = ip.silent_address()?;
    record.add("first", sys::connect(&socket, Some(address)));
    record.add("error left", socket.take_error());
    record.add("read", read(&socket));
    record.add("second", sys::connect(&socket, Some(address)));
    let (listener, address) = ip.listener()?;
    record.add("to a listener", sys::connect(&socket, Some(address)));
    write(&socket, b"at last")?;
    record.add("server reads", read(&listener.accept()?.0));
    Ok(())
}

fn port_0(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("connect", TcpStream::connect(ip.loopback(0)).map(drop));
    Ok(())
}

fn any_is_this_machine(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(ip.any(address.port()))?;
    record.add("peer", client.peer_addr());
    record.add("local", client.local_addr());
    record.add("accept", listener.accept().map(|(_, peer)| peer));
    Ok(())
}

fn multicast_address(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    // With a scope ID: without one, the interface depends on the host.
    let address: SocketAddr = match ip {
        IpVersion::V4 => ([224, 0, 0, 251], 9).into(),
        IpVersion::V6 => "[ff02::fb%1]:9".parse().map_err(io::Error::other)?,
    };
    record.add("connect", TcpStream::connect(address).map(drop));
    Ok(())
}

fn broadcast_address(record: &mut Transcript) -> CheckResult {
    record.add("connect", TcpStream::connect((Ipv4Addr::BROADCAST, 9)).map(drop));
    record.add("to loopback's", TcpStream::connect(("127.255.255.255", 9)).map(drop));
    Ok(())
}

/// Link-local addresses need a scope.
fn link_local_address(record: &mut Transcript) -> CheckResult {
    let address = |text: &str| text.parse::<SocketAddr>().map_err(io::Error::other);
    record.add("connect without a scope", TcpStream::connect(address("[fe80::1]:9")?).map(drop));
    let bind = |text| address(text).and_then(UdpSocket::bind).map(drop);
    for text in ["[ff02::1]:0", "[ff02::1%99999]:0", "[ff02::1%1]:0", "[fe80::1]:0", "[fe80::1%99999]:0"] {
        record.add(text, bind(text));
    }
    let listen = |text| address(text).and_then(TcpListener::bind).map(drop);
    for text in ["[ff02::1%99999]:0", "[fe80::1]:0", "[fe80::1%99999]:0"] {
        record.add("listen", listen(text));
    }
    let socket = UdpSocket::bind("[::]:0")?;
    record.add("peer without a scope", socket.connect(address("[fe80::1]:9")?));
    record.add("group without a scope", socket.connect(address("[ff02::1]:9")?));
    Ok(())
}

fn within_a_limit(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect_timeout(&address, LONG_TIMEOUT)?;
    let (server, _) = listener.accept()?;
    write(&client, b"in time")?;
    record.add("server reads", read(&server));
    // The socket is blocking again, without a timeout.
    record.add("read limit", client.read_timeout());
    drop(server);
    record.add("client reads", read(&client));
    Ok(())
}

fn no_time(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address) = ip.listener()?;
    record.add("connect", TcpStream::connect_timeout(&address, Duration::ZERO).map(drop));
    Ok(())
}

fn limit_passes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let limit = Duration::from_millis(200);
    let (result, time) = takes(limit, || TcpStream::connect_timeout(&address, limit).map(drop));
    record.add("connect", result);
    record.add("it ends", time);
    Ok(())
}

fn send_limit_passes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let socket = ip.stream_socket()?;
    let limit = Duration::from_millis(200);
    sys::set_timeout(&socket, sys::Timeout::Send, 0, 200_000)?;
    let (result, time) = takes(limit, || sys::connect(&socket, Some(address)));
    record.add("connect", result);
    record.add("it ends", time);
    record.add("again", sys::connect(&socket, Some(address)).map_err(|error| error.kind()).is_err());
    Ok(())
}

fn already_connected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    record.add("client again", sys::connect(&client, Some(address)));
    record.add("accepted one", sys::connect(&server, Some(address)));
    drop(server);
    record.add("read", read(&client));
    record.add("after the end", sys::connect(&client, Some(address)));
    Ok(())
}

fn listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, _) = ip.listener()?;
    let (_other, address) = ip.listener()?;
    record.add("connect", sys::connect(&listener, Some(address)));
    Ok(())
}

/// A simultaneous open (RFC 9293, section 3.5), of a socket with itself.
fn itself(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpStream::from(ip.stream_socket()?);
    sys::bind(&socket, ip.loopback(0))?;
    let address = socket.local_addr()?;
    record.add("connect", sys::connect(&socket, Some(address)));
    record.add("peer is itself", socket.peer_addr()? == address);
    record.add("write", write(&socket, b"me"));
    record.add("read", read(&socket));
    Ok(())
}

fn first_address_that_answers(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let silent = ip.silent_address()?;
    let (_listener, address) = ip.listener()?;
    let client = TcpStream::connect(&[silent, address][..])?;
    record.add("second of two", client.peer_addr()? == address);
    record.add("none of two", TcpStream::connect(&[silent, silent][..]).map(drop));
    let none: [SocketAddr; 0] = [];
    record.add("none of none", TcpStream::connect(&none[..]).map(drop));
    Ok(())
}

fn of_the_other_version(record: &mut Transcript) -> CheckResult {
    let (_listener, v4) = IpVersion::V4.listener()?;
    let (_other, v6) = IpVersion::V6.listener()?;
    record.add("v4 socket to v6", sys::connect(IpVersion::V4.stream_socket()?, Some(v6)));
    record.add("v6 socket to v4", sys::connect(IpVersion::V6.stream_socket()?, Some(v4)));
    record.add("v4 datagrams to v6", sys::connect(IpVersion::V4.datagram_socket()?, Some(v6)));
    record.add("v6 datagrams to v4", sys::connect(IpVersion::V6.datagram_socket()?, Some(v4)));
    Ok(())
}

/// The listener is closed, its connections are not.
fn again_after_close(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    drop(listener);
    write(&client, b"still")?;
    record.add("server reads", read(&server));
    let second = TcpStream::connect(address).map(drop);
    record.add("refused", matches!(&second, Err(error) if error.kind() == ErrorKind::ConnectionRefused));
    Ok(())
}
