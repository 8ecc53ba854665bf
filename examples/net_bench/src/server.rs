//! Does what clients wish; each connection has a thread.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::Wish;

/// What a connection's thread needs, with much to spare; its buffers are elsewhere.
const STACK: usize = 64 << 10;

/// The least room for what is received where only its amount counts.
const ROOM: usize = 256 << 10;

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Serves until a client wants it to stop.
pub(crate) fn serve(listener: &TcpListener) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    let stopping = Arc::new(AtomicBool::new(false));
    loop {
        let (stream, _) = listener.accept()?;
        if stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        let stopping = Arc::clone(&stopping);
        let work = move || {
            // A failed connection does not affect other clients.
            if let Ok(Wish::Stop) = fulfil(&stream) {
                stopping.store(true, Ordering::Release);
                // The one who accepts is woken by a connection.
                drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
            }
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(work) {
            eprintln!("a connection is dropped: {error}");
        }
    }
}

/// Does what the client wishes, and gives the wish.
fn fulfil(stream: &TcpStream) -> io::Result<Wish> {
    let wish = Wish::receive(stream)?;
    match wish {
        Wish::Sink => sink(stream)?,
        Wish::Source { message, milliseconds } => source(stream, message, milliseconds)?,
        Wish::SourceAtOnce { message, milliseconds } => {
            stream.set_nodelay(true)?;
            source(stream, message, milliseconds)?;
        }
        Wish::Echo { message } => echo(stream, message)?,
        Wish::Stop => {}
    }
    Ok(wish)
}

/// A buffer of this size.
pub(crate) fn buffer(size: u32) -> Vec<u8> {
    vec![b'x'; usize::try_from(size).unwrap_or_default()]
}

/// Reads up to the end, with room for many messages, and gives the number of bytes.
pub(crate) fn drain(mut stream: &TcpStream, message: u32) -> io::Result<u64> {
    let mut buffer = buffer(message);
    buffer.resize(buffer.len().max(ROOM), 0);
    let mut total = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            size => total += u64::try_from(size).unwrap_or_default(),
        }
    }
}

/// Sends messages for a while, and gives the number of bytes.
pub(crate) fn pour(mut stream: &TcpStream, message: u32, time: Duration) -> io::Result<u64> {
    let buffer = buffer(message);
    // Looking at the clock must not cost more than sending.
    let messages = (64 << 10) / message.clamp(1, 64 << 10);
    let mut total = 0;
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..messages {
            stream.write_all(&buffer)?;
            total += u64::from(message);
        }
    }
    Ok(total)
}

fn sink(mut stream: &TcpStream) -> io::Result<()> {
    let total = drain(stream, 0)?;
    stream.write_all(&total.to_le_bytes())
}

fn source(stream: &TcpStream, message: u32, milliseconds: u32) -> io::Result<()> {
    pour(stream, message, Duration::from_millis(milliseconds.into())).map(drop)
}

fn echo(mut stream: &TcpStream, message: u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = buffer(message);
    loop {
        match stream.read_exact(&mut buffer) {
            Ok(()) => stream.write_all(&buffer)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
