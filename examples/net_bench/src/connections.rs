//! How fast connections are made, and how many there may be.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::arguments::Settings;
use crate::protocol::{self, Wish};
use crate::report::Report;

/// The wish for an echo of one byte, and the byte: one segment.
fn ask(mut stream: &TcpStream) -> io::Result<()> {
    let mut bytes = Wish::Echo { message: 1 }.encode().to_vec();
    bytes.push(b'a');
    stream.write_all(&bytes)
}

/// The byte that comes back.
fn hear(mut stream: &TcpStream) -> io::Result<()> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    if byte == [b'a'] { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Connects, has one byte echoed, and closes, again and again.
pub(crate) fn one_by_one(server: &str, settings: &Settings) -> io::Result<()> {
    let count = settings.count.unwrap_or(2_000);
    let start = Instant::now();
    for _ in 0..count {
        let stream = protocol::connect(server)?;
        ask(&stream)?;
        hear(&stream)?;
    }
    let time = start.elapsed();
    let line = Report::new("connections").number("count", count).microseconds("time_us", time).rate(
        "per_second",
        count.into(),
        time,
        1.0,
    );
    println!("{}", line.finish());
    Ok(())
}

/// Makes many connections, has one byte echoed by each while all are open, and closes them.
pub(crate) fn at_the_same_time(server: &str, settings: &Settings) -> io::Result<()> {
    let count = settings.count.unwrap_or(1_000);
    let start = Instant::now();
    let streams: Vec<TcpStream> = (0..count).map(|_| protocol::connect(server)).collect::<Result<_, _>>()?;
    let connected = start.elapsed();
    streams.iter().try_for_each(ask)?;
    streams.iter().try_for_each(hear)?;
    let line = Report::new("concurrent")
        .number("count", count)
        .microseconds("connected_us", connected)
        .microseconds("answered_us", start.elapsed());
    println!("{}", line.finish());
    Ok(())
}
