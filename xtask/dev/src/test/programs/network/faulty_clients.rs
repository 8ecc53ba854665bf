//! Tests of clients that stop in the middle of a request, send slowly, do not read, or reset the connection.
//! Other clients are served meanwhile, and no memory is leaked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::path::NetworkPath;
use super::{http, load, uninterrupted};
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Number of clients of each kind.
const CLIENTS: usize = 50;

/// Half of a request.
const HALF: &[u8] = b"GET /bytes/100000 HTTP/1.1\r\nHost: te";

/// A request for a response that is larger than all buffers.
const LARGE: &[u8] = b"GET /bytes/1000000000 HTTP/1.1\r\nHost: test\r\n\r\n";

/// The server's timeout in milliseconds. It is so short that it expires during the test.
const TIMEOUT: u64 = 2_000;

/// If the host delays a client by this time or longer, the client may run into the server's timeout, so its
/// result does not count.
const DELAYED: Duration = Duration::from_millis(TIMEOUT / 2);

/// Time between two bytes of a slow request. The whole request arrives within the server's timeout.
const WRITE_INTERVAL: Duration = Duration::from_millis(5);

/// Time between two slow reads of the response. The server allows more time for a response than for a
/// request.
const READ_INTERVAL: Duration = Duration::from_millis(20);

/// Number of attempts of a slow client. On a busy machine, the timeout may expire in one of them.
const ATTEMPTS: usize = 3;

/// Beginning of the server's response after its timeout.
const TIMED_OUT: &str = "HTTP/1.1 408 ";

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let name = format!("{platform}: clients that stop, send slowly, do not read, or reset");
    tests.add(name, move || {
        let guest = load::httpd(platform, 128).variable(&format!("HTTPD_TIMEOUT={TIMEOUT}"));
        load::twice(&NetworkPath::best()?, guest, all_kinds)
    });
}

fn all_kinds(address: SocketAddr) -> Result<()> {
    let full = many(address, LARGE)?;
    let silent = many(address, b"")?;
    let half = many(address, HALF)?;
    reset(address)?;
    slow_client(address)?;
    // All connections are still open.
    let answer = served(address).context("other clients are not served any more")?;
    ensure!(answer.len() == 1000, "{} bytes", answer.len());
    // Incomplete requests get the response to a timeout.
    for mut stream in half {
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with(TIMED_OUT), "{text:?}");
    }
    for stream in silent {
        ensure!(http::rest(&stream)?.is_empty(), "there was a response without a request");
    }
    full.iter().try_for_each(is_closed)
}

/// Opens [`CLIENTS`] connections, sends `bytes` on each, and returns the connections.
fn many(address: SocketAddr, bytes: &[u8]) -> Result<Vec<TcpStream>> {
    let client = || loop {
        let mut stream = http::with_retries(|| http::connect(address))?;
        let start = Instant::now();
        stream.write_all(bytes)?;
        if start.elapsed() < DELAYED {
            return Ok(stream);
        }
    };
    (0..CLIENTS).map(|_| client()).collect()
}

/// Requests a response as an ordinary client, and returns its body.
fn served(address: SocketAddr) -> Result<Vec<u8>> {
    let start = Instant::now();
    match http::get(address, "/bytes/1000") {
        Err(_) if start.elapsed() > DELAYED => http::get(address, "/bytes/1000"),
        result => result,
    }
}

/// A client that sends its request byte by byte gets the response.
fn slow_client(address: SocketAddr) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let start = Instant::now();
        let answer = send_slowly(address).map(|answer| String::from_utf8_lossy(&answer).into_owned());
        match &answer {
            Ok(answer) if answer.starts_with(TIMED_OUT) => {}
            // The server has closed the connection after its timeout.
            Err(_) if start.elapsed() > DELAYED => {}
            _ => {
                let answer = answer?;
                ensure!(answer.ends_with("Hello from hermit\n"), "{answer}");
                return Ok(());
            }
        }
    }
    bail!("none of {ATTEMPTS} slow clients met the timeout")
}

/// Sends a request slowly and reads the response slowly.
fn send_slowly(address: SocketAddr) -> Result<Vec<u8>> {
    let mut stream = http::connect(address)?;
    for byte in b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte])?;
        thread::sleep(WRITE_INTERVAL);
    }
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 16];
        match uninterrupted(|| stream.read(&mut bytes))? {
            0 => return Ok(answer),
            size => answer.extend(bytes.iter().take(size)),
        }
        thread::sleep(READ_INTERVAL);
    }
}

/// Clients close their connections with unread bytes. Linux then resets the connections (RFC 1122, section
/// 4.2.2.13).
fn reset(address: SocketAddr) -> Result<()> {
    for stream in many(address, LARGE)? {
        (&stream).read_exact(&mut [0; 100])?;
    }
    Ok(())
}

/// The server closes the connection of a client that does not read.
fn is_closed(mut stream: &TcpStream) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match uninterrupted(|| stream.read(&mut buffer)) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => bail!("the server still waits: {error}"),
            Ok(_) => {}
        }
    }
}
