//! Clients that stop in the middle, crawl, do not read, or are torn off. Others are served all the same, and nothing is left of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::way::{self, Way};
use super::{http, load, uninterrupted};
use crate::test::host::Host;
use crate::test::report::Report;

/// So many of each kind at a time.
const CLIENTS: usize = 50;

/// Half of a request.
const HALF: &[u8] = b"GET /bytes/100000 HTTP/1.1\r\nHost: te";

/// A whole one, for more than anybody's buffers take.
const MUCH: &[u8] = b"GET /bytes/1000000000 HTTP/1.1\r\nHost: test\r\n\r\n";

/// How long a crawling client waits between two bytes.
const CRAWL: Duration = Duration::from_millis(20);

pub(super) fn test(report: &mut Report, host: &Host<'_>) {
    let name = format!("{host}: clients that stop, crawl, do not read, or are torn off");
    match way::reason_against(host) {
        Some(reason) => report.skip(&name, &reason),
        // The server's patience ends within the test.
        None => report.check(&name, || {
            let guest = load::httpd(host, 128).variable("HTTPD_TIMEOUT=2000");
            load::twice(&Way::best()?, guest, everybody)
        }),
    }
}

fn everybody(address: SocketAddr) -> Result<()> {
    let full = many(address, MUCH)?;
    let silent = many(address, b"")?;
    let half = many(address, HALF)?;
    torn(address)?;
    crawling(address)?;
    // While they are all there.
    let answer = http::get(address, "/bytes/1000").context("nobody else is served any more")?;
    ensure!(answer.len() == 1000, "{} bytes", answer.len());
    // Who does not say what it wants is told that it is too late.
    for mut stream in half {
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with("HTTP/1.1 408 "), "{text:?}");
    }
    for stream in silent {
        ensure!(http::rest(&stream)?.is_empty(), "there was an answer to nothing");
    }
    full.iter().try_for_each(cut_off)
}

/// Clients that have sent something and wait.
fn many(address: SocketAddr, bytes: &[u8]) -> Result<Vec<TcpStream>> {
    let client = || {
        let mut stream = http::patiently(|| http::connect(address))?;
        stream.write_all(bytes)?;
        Ok(stream)
    };
    (0..CLIENTS).map(|_| client()).collect()
}

/// A client sends a byte now and then, and gets its answer.
fn crawling(address: SocketAddr) -> Result<()> {
    let mut stream = http::connect(address)?;
    for byte in b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte])?;
        thread::sleep(CRAWL);
    }
    let mut answer = Vec::new();
    // And reads it in no greater haste.
    loop {
        let mut bytes = [0; 16];
        match uninterrupted(|| stream.read(&mut bytes))? {
            0 => break,
            size => answer.extend(bytes.iter().take(size)),
        }
        thread::sleep(CRAWL);
    }
    ensure!(answer.ends_with(b"Hello from hermit\n"), "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Clients that go away with bytes that they have not read: Linux then resets the connection (RFC 1122, 4.2.2.13).
fn torn(address: SocketAddr) -> Result<()> {
    for stream in many(address, MUCH)? {
        (&stream).read_exact(&mut [0; 100])?;
    }
    Ok(())
}

/// Who does not read is cut off by the server in the end.
fn cut_off(mut stream: &TcpStream) -> Result<()> {
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
