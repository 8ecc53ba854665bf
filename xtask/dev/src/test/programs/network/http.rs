//! A minimal HTTP/1.1 client.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{TIMEOUT, uninterrupted};

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout of the first attempt to reach a server that may not be ready. Without a timeout, the attempt could
/// hang: uhyve may accept the connection before the guest has an address.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// A persistent connection.
#[derive(Debug)]
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(connect(address)?)))
    }

    /// Connects as [`Self::new`] does, with another timeout.
    fn within(address: SocketAddr, timeout: Duration) -> Result<Self> {
        Ok(Self(BufReader::new(connect_within(address, timeout)?)))
    }

    /// Gets the body at a path.
    fn get(mut self, path: &str) -> Result<Vec<u8>> {
        let answer = self.ask(&format!("GET {path}"), b"")?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(answer.body)
    }

    /// Sends a request without waiting for the response.
    pub(super) fn send(&mut self, request: &str, body: &[u8]) -> Result<()> {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Ok(self.0.get_mut().write_all(&[head.as_bytes(), body].concat())?)
    }

    /// Waits until the first byte of a response has arrived.
    pub(super) fn await_first_byte(&self) -> Result<()> {
        let count = uninterrupted(|| self.0.get_ref().peek(&mut [0]))?;
        ensure!(count == 1, "the connection has ended");
        Ok(())
    }

    /// Receives a response.
    pub(super) fn receive(&mut self) -> Result<Response> {
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
        Ok(Response { status, body })
    }

    /// Waits for the end of the connection or for a byte of a response. Returns true if the connection has
    /// ended.
    pub(super) fn ends(&self) -> Result<bool> {
        match uninterrupted(|| self.0.get_ref().peek(&mut [0])) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
            result => Ok(result? == 0),
        }
    }

    /// Sends a request and receives its response.
    pub(super) fn ask(&mut self, request: &str, body: &[u8]) -> Result<Response> {
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

/// Opens a connection whose operations time out after [`TIMEOUT`].
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    connect_within(address, TIMEOUT)
}

/// Connects as [`connect`] does, with another timeout.
pub(super) fn connect_within(address: SocketAddr, time: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    stream.set_write_timeout(Some(time))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Gets the body at a path.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    Connection::new(address)?.get(path)
}

/// Gets the body as [`get`] does, with another timeout.
pub(super) fn get_within(address: SocketAddr, path: &str, timeout: Duration) -> Result<Vec<u8>> {
    Connection::within(address, timeout)?.get(path)
}

/// Repeats [`get`] until it succeeds. Repetitions are necessary because a VMM accepts connections to a
/// forwarded port before the guest is ready, and then drops them.
pub(super) fn get_with_retries(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    with_timeouts(|timeout| get_within(address, path, timeout))
}

/// Returns the timeout of an attempt to reach a server that may not be ready. The first attempt began at
/// `start`. Each attempt may take as long as all earlier attempts together. With short timeouts, abandoned
/// connections would keep a slow guest busy, such as one that needs a second for an answer.
pub(super) fn attempt_timeout(start: Instant) -> Duration {
    start.elapsed().max(FIRST_TIMEOUT)
}

/// Repeats an action until it succeeds or [`TIMEOUT`] has passed. There are at least two attempts.
pub(super) fn with_retries<T>(mut action: impl FnMut() -> Result<T>) -> Result<T> {
    with_timeouts(|_| action())
}

/// Repeats an action as [`with_retries`] does, and passes the timeout of the attempt to the action. This is
/// for actions that connect to a server that may not be ready, although the program that forwards the port
/// accepts the connection already.
pub(super) fn with_timeouts<T>(mut action: impl FnMut(Duration) -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() > TIMEOUT;
        match action(attempt_timeout(start)) {
            Err(error) if is_last => return Err(error),
            Err(_) => thread::sleep(RETRY_INTERVAL),
            result => return result,
        }
    }
}

/// Requests a server to end.
pub(super) fn exit(address: SocketAddr) -> Result<()> {
    let answer = Connection::new(address)?.ask("POST /exit", b"")?;
    ensure!(answer == Response { status: 200, body: b"goodbye\n".to_vec() }, "{answer:?}");
    Ok(())
}

/// Reads until the end or the reset of the connection, and returns the bytes.
pub(super) fn rest(mut stream: &TcpStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(bytes),
    }
}
