//! Clients that stop in the middle, crawl, do not read, or are torn off. Others are served all the same, and nothing is left of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::path::{self, NetworkPath};
use super::{http, load, uninterrupted};
use crate::test::platform::Platform;
use crate::test::schedule::Tests;

/// So many of each kind at a time.
const CLIENTS: usize = 50;

/// Half of a request.
const HALF: &[u8] = b"GET /bytes/100000 HTTP/1.1\r\nHost: te";

/// A whole one, for more than anybody's buffers take.
const MUCH: &[u8] = b"GET /bytes/1000000000 HTTP/1.1\r\nHost: test\r\n\r\n";

/// The server's patience, in milliseconds: it ends within the test.
const TIMEOUT: u64 = 2_000;

/// Whoever is held up for so long after the connection is there could be found too late by no fault of the server's.
const HELD_UP: Duration = Duration::from_millis(TIMEOUT / 2);

/// How long a crawling client waits between two bytes of its request, all of which must be there in good time.
const CRAWL: Duration = Duration::from_millis(5);

/// How long it waits between two pieces of the answer, for which there is more time.
const READING_CRAWL: Duration = Duration::from_millis(20);

/// How often a request that was found too late is made: only a busy machine makes it so.
const CRAWLS: usize = 3;

/// How the answer begins to a request that did not come in time.
const TOO_LATE: &str = "HTTP/1.1 408 ";

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) {
    let name = format!("{platform}: clients that stop, crawl, do not read, or are torn off");
    tests.add_unless(path::reason_against(platform), name, move || {
        let guest = load::httpd(platform, 128).variable(&format!("HTTPD_TIMEOUT={TIMEOUT}"));
        load::twice(&NetworkPath::best()?, guest, everybody)
    });
}

fn everybody(address: SocketAddr) -> Result<()> {
    let full = many(address, MUCH)?;
    let silent = many(address, b"")?;
    let half = many(address, HALF)?;
    torn(address)?;
    crawling(address)?;
    // While they are all there.
    let answer = served(address).context("nobody else is served any more")?;
    ensure!(answer.len() == 1000, "{} bytes", answer.len());
    // Who does not say what it wants is told that it is too late.
    for mut stream in half {
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with(TOO_LATE), "{text:?}");
    }
    for stream in silent {
        ensure!(http::rest(&stream)?.is_empty(), "there was an answer to nothing");
    }
    full.iter().try_for_each(cut_off)
}

/// Clients that have sent something and wait.
fn many(address: SocketAddr, bytes: &[u8]) -> Result<Vec<TcpStream>> {
    let client = || loop {
        let mut stream = http::patiently(|| http::connect(address))?;
        let start = Instant::now();
        stream.write_all(bytes)?;
        if start.elapsed() < HELD_UP {
            return Ok(stream);
        }
    };
    (0..CLIENTS).map(|_| client()).collect()
}

/// Somebody who does nothing unusual.
fn served(address: SocketAddr) -> Result<Vec<u8>> {
    let start = Instant::now();
    match http::get(address, "/bytes/1000") {
        Err(_) if start.elapsed() > HELD_UP => http::get(address, "/bytes/1000"),
        result => result,
    }
}

/// A client sends a byte now and then, and gets its answer.
fn crawling(address: SocketAddr) -> Result<()> {
    for _ in 0..CRAWLS {
        let start = Instant::now();
        let answer = crawl(address).map(|answer| String::from_utf8_lossy(&answer).into_owned());
        match &answer {
            Ok(answer) if answer.starts_with(TOO_LATE) => {}
            // It went on sending when the server no longer listened.
            Err(_) if start.elapsed() > HELD_UP => {}
            _ => {
                let answer = answer?;
                ensure!(answer.ends_with("Hello from hermit\n"), "{answer}");
                return Ok(());
            }
        }
    }
    bail!("of {CRAWLS} clients that crawl none is in time")
}

/// The answer to a crawling client.
fn crawl(address: SocketAddr) -> Result<Vec<u8>> {
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
            0 => return Ok(answer),
            size => answer.extend(bytes.iter().take(size)),
        }
        thread::sleep(READING_CRAWL);
    }
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
