//! As much of HTTP/1.1 as it takes to ask our servers.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{PATIENCE, uninterrupted};

/// How long to wait between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// How long to wait for somebody who may not be there yet: passt does not ask again for a connection that the guest has
/// not answered, because it had no address yet, and gives up after ten seconds.
const SOON: Duration = Duration::from_secs(1);

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// A connection that is kept.
#[derive(Debug)]
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(connect(address)?)))
    }

    /// With somebody who may not be there yet.
    fn first(address: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(connect_first(address)?)))
    }

    /// What there is at a path.
    fn get(mut self, path: &str) -> Result<Vec<u8>> {
        let answer = self.ask(&format!("GET {path}"), b"")?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(answer.body)
    }

    /// Sends a request without waiting for the answer.
    pub(super) fn send(&mut self, request: &str, body: &[u8]) -> Result<()> {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Ok(self.0.get_mut().write_all(&[head.as_bytes(), body].concat())?)
    }

    /// Waits until an answer begins.
    pub(super) fn await_first_byte(&self) -> Result<()> {
        let count = uninterrupted(|| self.0.get_ref().peek(&mut [0]))?;
        ensure!(count == 1, "the connection has ended");
        Ok(())
    }

    /// Waits for an answer.
    pub(super) fn receive(&mut self) -> Result<Answer> {
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.with_context(|| format!("the answer begins with {first:?}"))?;
        let mut length = 0;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }

    /// A request and its answer.
    pub(super) fn ask(&mut self, request: &str, body: &[u8]) -> Result<Answer> {
        self.send(request, body)?;
        self.receive().with_context(|| request.to_owned())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").context("the connection ends too early")?;
        Ok(line.to_owned())
    }
}

/// A connection on which nothing takes for ever.
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    connect_within(address, PATIENCE)
}

/// A connection to somebody who may not be there yet, or may be so only for who passes the port on.
pub(super) fn connect_first(address: SocketAddr) -> Result<TcpStream> {
    connect_within(address, SOON)
}

fn connect_within(address: SocketAddr, time: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    stream.set_write_timeout(Some(time))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What there is at a path.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    Connection::new(address)?.get(path)
}

/// As [`get`], of somebody who may not be there yet.
pub(super) fn get_first(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    Connection::first(address)?.get(path)
}

/// As [`get`], again and again: who passes a port on takes connections before the guest is there, and then drops them.
pub(super) fn get_patiently(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    patiently(|| get_first(address, path))
}

/// Tries until it works. One attempt that takes all the time is not the last one.
pub(super) fn patiently<T>(mut action: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() > PATIENCE;
        match action() {
            Err(error) if is_last => return Err(error),
            Err(_) => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Has a server end.
pub(super) fn exit(address: SocketAddr) -> Result<()> {
    let answer = Connection::new(address)?.ask("POST /exit", b"")?;
    ensure!(answer == Answer { status: 200, body: b"goodbye\n".to_vec() }, "{answer:?}");
    Ok(())
}

/// Reads to the end, or to where the other side has given up.
pub(super) fn rest(mut stream: &TcpStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(bytes),
    }
}
