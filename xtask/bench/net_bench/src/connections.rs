//! Measures the rate of connections, and many concurrent connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::arguments::Settings;
use crate::protocol::{self, TestRequest};
use crate::report::JsonLine;

/// Sends an echo request for messages of one byte and the first byte, both in one segment.
fn send_byte(mut stream: &TcpStream) -> io::Result<()> {
    let mut bytes = TestRequest::Echo { message: 1 }.encode().to_vec();
    bytes.push(b'a');
    stream.write_all(&bytes)
}

/// Receives the echoed byte.
fn receive_byte(mut stream: &TcpStream) -> io::Result<()> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    if byte == [b'a'] { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Opens connections one after the other. On each connection, one byte is echoed.
pub(crate) fn sequential(server: &str, settings: &Settings) -> io::Result<()> {
    let count = settings.count.unwrap_or(2_000);
    let start = Instant::now();
    for _ in 0..count {
        let stream = protocol::connect(server)?;
        send_byte(&stream)?;
        receive_byte(&stream)?;
    }
    let time = start.elapsed();
    let line = JsonLine::new("connections").number("count", count).microseconds("time_us", time).rate(
        "per_second",
        count.into(),
        time,
        1.0,
    );
    println!("{}", line.finish());
    Ok(())
}

/// Opens many connections. After that, one byte is echoed on each connection.
pub(crate) fn concurrent(server: &str, settings: &Settings) -> io::Result<()> {
    let count = settings.count.unwrap_or(1_000);
    let start = Instant::now();
    let streams: Vec<TcpStream> = (0..count).map(|_| protocol::connect(server)).collect::<Result<_, _>>()?;
    let connected = start.elapsed();
    streams.iter().try_for_each(send_byte)?;
    streams.iter().try_for_each(receive_byte)?;
    let line = JsonLine::new("concurrent")
        .number("count", count)
        .microseconds("connected_us", connected)
        .microseconds("answered_us", start.elapsed());
    println!("{}", line.finish());
    Ok(())
}
