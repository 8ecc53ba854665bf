//! Connecting, and why it may fail.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Ip, at_once, read, takes, write};
use crate::{Check, Outcome, Row, sys};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(30);

pub(crate) const ROWS: [Row; 17] = [
    ("refused", Check::Versions(refused)),
    ("refused_within_a_limit", Check::Versions(refused_within_a_limit)),
    ("refused_twice", Check::Versions(refused_twice)),
    ("port_0", Check::Versions(port_0)),
    ("any_is_this_machine", Check::Versions(any_is_this_machine)),
    ("multicast_address", Check::Versions(multicast_address)),
    ("broadcast_address", Check::Plain(broadcast_address)),
    ("within_a_limit", Check::Versions(within_a_limit)),
    ("no_time", Check::Versions(no_time)),
    ("limit_passes", Check::Versions(limit_passes)),
    ("send_limit_passes", Check::Versions(send_limit_passes)),
    ("already_connected", Check::Versions(already_connected)),
    ("listener", Check::Versions(listener)),
    ("itself", Check::Versions(itself)),
    ("first_address_that_answers", Check::Versions(first_address_that_answers)),
    ("of_the_other_version", Check::Plain(of_the_other_version)),
    ("again_after_close", Check::Versions(again_after_close)),
];

fn refused(notes: &mut Notes, ip: Ip) -> Outcome {
    let address = ip.silent_address()?;
    let (result, time) = at_once(|| TcpStream::connect(address).map(drop));
    notes.add("connect", result);
    notes.add("answer", time);
    Ok(())
}

fn refused_within_a_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let address = ip.silent_address()?;
    let (result, time) = at_once(|| TcpStream::connect_timeout(&address, LONG).map(drop));
    notes.add("connect", result);
    notes.add("answer", time);
    Ok(())
}

/// A socket may try again after it was refused.
fn refused_twice(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpStream::from(ip.stream_socket()?);
    let address = ip.silent_address()?;
    notes.add("first", sys::connect(&socket, Some(address)));
    notes.add("error left", socket.take_error());
    notes.add("read", read(&socket));
    notes.add("second", sys::connect(&socket, Some(address)));
    let (listener, address) = ip.listener()?;
    notes.add("to a listener", sys::connect(&socket, Some(address)));
    write(&socket, b"at last")?;
    notes.add("server reads", read(&listener.accept()?.0));
    Ok(())
}

fn port_0(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("connect", TcpStream::connect(ip.loopback(0)).map(drop));
    Ok(())
}

fn any_is_this_machine(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(ip.any(address.port()))?;
    notes.add("peer", client.peer_addr());
    notes.add("local", client.local_addr());
    notes.add("accept", listener.accept().map(|(_, peer)| peer));
    Ok(())
}

fn multicast_address(notes: &mut Notes, ip: Ip) -> Outcome {
    // The interface by number: without it, which one is meant depends on the machine.
    let address: SocketAddr = match ip {
        Ip::V4 => ([224, 0, 0, 251], 9).into(),
        Ip::V6 => "[ff02::fb%1]:9".parse().map_err(io::Error::other)?,
    };
    notes.add("connect", TcpStream::connect(address).map(drop));
    Ok(())
}

fn broadcast_address(notes: &mut Notes) -> Outcome {
    notes.add("connect", TcpStream::connect((Ipv4Addr::BROADCAST, 9)).map(drop));
    notes.add("to loopback's", TcpStream::connect(("127.255.255.255", 9)).map(drop));
    Ok(())
}

fn within_a_limit(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect_timeout(&address, LONG)?;
    let (server, _) = listener.accept()?;
    write(&client, b"in time")?;
    notes.add("server reads", read(&server));
    // The socket waits again, and without a limit.
    notes.add("read limit", client.read_timeout());
    drop(server);
    notes.add("client reads", read(&client));
    Ok(())
}

fn no_time(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address) = ip.listener()?;
    notes.add("connect", TcpStream::connect_timeout(&address, Duration::ZERO).map(drop));
    Ok(())
}

fn limit_passes(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let limit = Duration::from_millis(200);
    let (result, time) = takes(limit, || TcpStream::connect_timeout(&address, limit).map(drop));
    notes.add("connect", result);
    notes.add("it ends", time);
    Ok(())
}

fn send_limit_passes(notes: &mut Notes, ip: Ip) -> Outcome {
    let (_listener, address, _waiting) = ip.full_listener()?;
    let socket = ip.stream_socket()?;
    let limit = Duration::from_millis(200);
    sys::set_limit(&socket, sys::Limit::Send, 0, 200_000)?;
    let (result, time) = takes(limit, || sys::connect(&socket, Some(address)));
    notes.add("connect", result);
    notes.add("it ends", time);
    notes.add("again", sys::connect(&socket, Some(address)).map_err(|error| error.kind()).is_err());
    Ok(())
}

fn already_connected(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    notes.add("client again", sys::connect(&client, Some(address)));
    notes.add("accepted one", sys::connect(&server, Some(address)));
    drop(server);
    notes.add("read", read(&client));
    notes.add("after the end", sys::connect(&client, Some(address)));
    Ok(())
}

fn listener(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, _) = ip.listener()?;
    let (_other, address) = ip.listener()?;
    notes.add("connect", sys::connect(&listener, Some(address)));
    Ok(())
}

/// Both sides open at the same time (RFC 9293, section 3.5), and both are this one.
fn itself(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpStream::from(ip.stream_socket()?);
    sys::bind(&socket, ip.loopback(0))?;
    let address = socket.local_addr()?;
    notes.add("connect", sys::connect(&socket, Some(address)));
    notes.add("peer is itself", socket.peer_addr()? == address);
    notes.add("write", write(&socket, b"me"));
    notes.add("read", read(&socket));
    Ok(())
}

fn first_address_that_answers(notes: &mut Notes, ip: Ip) -> Outcome {
    let silent = ip.silent_address()?;
    let (_listener, address) = ip.listener()?;
    let client = TcpStream::connect(&[silent, address][..])?;
    notes.add("second of two", client.peer_addr()? == address);
    notes.add("none of two", TcpStream::connect(&[silent, silent][..]).map(drop));
    let none: [SocketAddr; 0] = [];
    notes.add("none of none", TcpStream::connect(&none[..]).map(drop));
    Ok(())
}

fn of_the_other_version(notes: &mut Notes) -> Outcome {
    let (_listener, v4) = Ip::V4.listener()?;
    let (_other, v6) = Ip::V6.listener()?;
    notes.add("v4 socket to v6", sys::connect(Ip::V4.stream_socket()?, Some(v6)));
    notes.add("v6 socket to v4", sys::connect(Ip::V6.stream_socket()?, Some(v4)));
    notes.add("v4 datagrams to v6", sys::connect(Ip::V4.datagram_socket()?, Some(v6)));
    notes.add("v6 datagrams to v4", sys::connect(Ip::V6.datagram_socket()?, Some(v4)));
    Ok(())
}

/// The listener is gone, its connections are not.
fn again_after_close(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let client = TcpStream::connect(address)?;
    let (server, _) = listener.accept()?;
    drop(listener);
    write(&client, b"still")?;
    notes.add("server reads", read(&server));
    let second = TcpStream::connect(address).map(drop);
    notes.add("refused", matches!(&second, Err(error) if error.kind() == ErrorKind::ConnectionRefused));
    Ok(())
}
