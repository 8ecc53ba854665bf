//! The time from the start of a monitor to the first answers of the guest.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::figures::Figures;
use super::server::Server;
use super::system::System;
use super::topic::Table;

/// The time between pings.
const PAUSE: Duration = Duration::from_millis(2);

/// How long an answer of the guest may take once it has answered a ping.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until the server has answered a ping and a request, and notes when that was if it is wanted.
pub(super) fn measure(
    server: &mut Server,
    system: System,
    is_wanted: bool,
    figures: &mut Figures,
) -> Result<()> {
    if system.is_machine() {
        wait_for_ping(server)?;
        if is_wanted {
            figures.add(Table::Start, "first ping reply", system, milliseconds(server));
        }
    }
    while ask(server.socket_address()).is_err() {
        server.check()?;
        thread::sleep(Duration::from_millis(1));
    }
    if is_wanted {
        figures.add(Table::Start, "first HTTP byte", system, milliseconds(server));
    }
    Ok(())
}

fn milliseconds(server: &Server) -> f64 {
    server.start.elapsed().as_secs_f64() * 1e3
}

/// Sends pings again and again, until one is answered.
fn wait_for_ping(server: &mut Server) -> Result<()> {
    let socket = socket(server.address()).context("cannot make a socket for pings")?;
    for number in 0_u16.. {
        // Nobody may be there yet, which Linux may say in the way of an error.
        if (&socket).write(&request(number)).is_ok() && is_answer((&socket).read(&mut [0; 64]))? {
            break;
        }
        server.check()?;
    }
    Ok(())
}

/// Whether something came in time. The socket gets nothing but answers to its own requests.
fn is_answer(result: io::Result<usize>) -> Result<bool> {
    match result {
        Ok(size) => Ok(size > 0),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
            Err(error.into())
        }
        Err(_) => Ok(false),
    }
}

/// A socket for ICMP's echo (icmp(7)), which a process may have whose group Linux is told.
fn socket(address: Ipv4Addr) -> Result<Socket> {
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").context("cannot allow pings")?;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4))?;
    socket.connect(&SockAddr::from(SocketAddr::from((address, 0))))?;
    socket.set_read_timeout(Some(PAUSE))?;
    Ok(socket)
}

/// An echo request (RFC 792); Linux fills in checksum and identifier.
fn request(number: u16) -> [u8; 16] {
    let [high, low] = number.to_be_bytes();
    [8, 0, 0, 0, 0, 0, high, low, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Asks for the greeting and waits for the first byte of an answer.
fn ask(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    Ok(stream.read_exact(&mut [0])?)
}
