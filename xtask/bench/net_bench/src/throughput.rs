//! Measures the throughput of one connection, with messages of one size.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::client::sizes;
use crate::protocol::{self, TestRequest};
use crate::report::JsonLine;
use crate::server::{drain, send_messages};

/// Message sizes in bytes.
const SIZES: [u32; 5] = [64, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// Measures each message size in both directions.
pub(crate) fn measure(server: &str, settings: &Settings) -> io::Result<()> {
    for message in sizes(settings, &SIZES) {
        let (bytes, time) = to_server(server, message, settings)?;
        report("to server", message, bytes, time);
        let (bytes, time) = from_server(server, message, settings)?;
        report("from server", message, bytes, time);
    }
    Ok(())
}

fn report(direction: &str, message: u32, bytes: u64, time: Duration) {
    let line = JsonLine::new("throughput")
        .word("direction", direction)
        .number("message", message)
        .number("bytes", bytes)
        .microseconds("time_us", time)
        .rate("megabytes_per_second", bytes, time, 1e6);
    println!("{}", line.finish());
}

/// Sends to the server, and measures until the server has confirmed the number of received bytes. Returns
/// that number and the time.
fn to_server(server: &str, message: u32, settings: &Settings) -> io::Result<(u64, Duration)> {
    let mut stream = protocol::connect(server)?;
    stream.set_nodelay(settings.no_delay)?;
    stream.write_all(&TestRequest::Sink.encode())?;
    let start = Instant::now();
    let sent = send_messages(&stream, message, settings.time)?;
    stream.shutdown(Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    let time = start.elapsed();
    let complete = u64::from_le_bytes(received) == sent;
    if complete { Ok((sent, time)) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Receives from the server, and measures until the server closes the connection. Returns the number of
/// received bytes and the time.
fn from_server(server: &str, message: u32, settings: &Settings) -> io::Result<(u64, Duration)> {
    let milliseconds = u32::try_from(settings.time.as_millis()).unwrap_or(u32::MAX);
    let request = if settings.no_delay {
        TestRequest::SourceNoDelay { message, milliseconds }
    } else {
        TestRequest::Source { message, milliseconds }
    };
    let mut stream = protocol::connect(server)?;
    let start = Instant::now();
    stream.write_all(&request.encode())?;
    let received = drain(&stream, message)?;
    let time = start.elapsed();
    let whole = received > 0 && received.is_multiple_of(message.into());
    if whole { Ok((received, time)) } else { Err(ErrorKind::UnexpectedEof.into()) }
}
