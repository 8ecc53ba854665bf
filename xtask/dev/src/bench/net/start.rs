//! The time from the start of a server's process to its first ping reply and its first HTTP byte.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::figures::Figures;
use super::server::RunningServer;
use super::system::System;
use super::topic::Table;

/// Interval of pings.
const PING_INTERVAL: Duration = Duration::from_millis(2);

/// Time limit for a connection or a response, after the guest has answered a ping.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits until the server has answered a ping and a request, and adds both times to the figures if the topic
/// is selected.
pub(super) fn measure(
    server: &mut RunningServer,
    system: System,
    is_selected: bool,
    figures: &mut Figures,
) -> Result<()> {
    if system.answers_pings() {
        wait_for_ping_reply(server)?;
        if is_selected {
            figures.add(Table::Start, "first ping reply", system, milliseconds(server));
        }
    }
    while request_page(server.socket_address()).is_err() {
        server.check()?;
        thread::sleep(Duration::from_millis(1));
    }
    if is_selected {
        figures.add(Table::Start, "first HTTP byte", system, milliseconds(server));
    }
    Ok(())
}

/// Returns the time since the server was started.
fn milliseconds(server: &RunningServer) -> f64 {
    server.start.elapsed().as_secs_f64() * 1e3
}

/// Sends pings until one is answered.
fn wait_for_ping_reply(server: &mut RunningServer) -> Result<()> {
    let socket = socket(server.address()).context("cannot make a socket for pings")?;
    for number in 0_u16.. {
        // A write fails while an ICMP error is pending, which may happen while the guest boots.
        if (&socket).write(&request(number)).is_ok() && is_reply((&socket).read(&mut [0; 64]))? {
            break;
        }
        server.check()?;
    }
    Ok(())
}

/// Returns true if a reply was received in time. The bytes need no check, because a ping socket receives only
/// replies to its own requests.
fn is_reply(result: io::Result<usize>) -> Result<bool> {
    match result {
        Ok(size) => Ok(size > 0),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
            Err(error.into())
        }
        Err(_) => Ok(false),
    }
}

/// Creates a ping socket (icmp(7)). Only a group in `ping_group_range` may do that, so this function sets the
/// range first.
fn socket(address: Ipv4Addr) -> Result<Socket> {
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").context("cannot permit ping sockets")?;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4))?;
    socket.connect(&SockAddr::from(SocketAddr::from((address, 0))))?;
    socket.set_read_timeout(Some(PING_INTERVAL))?;
    Ok(socket)
}

/// Returns an echo request (RFC 792). Linux sets the checksum and the identifier.
fn request(number: u16) -> [u8; 16] {
    let [high, low] = number.to_be_bytes();
    [8, 0, 0, 0, 0, 0, high, low, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Sends a request and waits for the first byte of the response.
fn request_page(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, REPLY_TIMEOUT)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    Ok(stream.read_exact(&mut [0])?)
}
