//! The server, with one thread for each connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::flows::is_timeout;
use crate::protocol::TestRequest;

/// Stack size in bytes of a connection's thread. It is small, because the buffers are on the heap.
const STACK_SIZE: usize = 64 << 10;

/// Minimum size in bytes of the receive buffer of [`drain`].
const MIN_DRAIN_BUFFER: usize = 256 << 10;

/// Interval at which [`counting_sink`] sends counts.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Serves until a client sends [`TestRequest::Stop`].
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
            if let Ok(TestRequest::Stop) = execute(&stream) {
                stopping.store(true, Ordering::Release);
                // This connection wakes the thread that waits in `accept`.
                drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
            }
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK_SIZE).spawn(work) {
            eprintln!("a connection is dropped: {error}");
        }
    }
}

/// Executes the client's request, and returns it.
fn execute(stream: &TcpStream) -> io::Result<TestRequest> {
    let request = TestRequest::receive(stream)?;
    match request {
        TestRequest::Sink => sink(stream)?,
        TestRequest::Source { message, milliseconds } => source(stream, message, milliseconds)?,
        TestRequest::SourceNoDelay { message, milliseconds } => {
            stream.set_nodelay(true)?;
            source(stream, message, milliseconds)?;
        }
        TestRequest::Echo { message } => echo(stream, message)?,
        TestRequest::Stop => {}
        TestRequest::Send { bytes } => send_bytes(stream, bytes)?,
        TestRequest::CountingSink { milliseconds } => counting_sink(stream, milliseconds)?,
    }
    Ok(request)
}

/// Returns a message buffer of `size` bytes.
pub(crate) fn buffer(size: u32) -> Vec<u8> {
    vec![b'x'; usize::try_from(size).unwrap_or_default()]
}

/// Reads up to the end of the stream, and returns the number of bytes.
pub(crate) fn drain(mut stream: &TcpStream, message: u32) -> io::Result<u64> {
    let mut buffer = buffer(message);
    buffer.resize(buffer.len().max(MIN_DRAIN_BUFFER), 0);
    let mut total = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            size => total += u64::try_from(size).unwrap_or_default(),
        }
    }
}

/// Sends messages for `time`, and returns the number of bytes.
pub(crate) fn send_messages(mut stream: &TcpStream, message: u32, time: Duration) -> io::Result<u64> {
    let buffer = buffer(message);
    // The clock is read only once per 64 KiB, so that reading it costs little compared with sending.
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

/// Sends this number of bytes.
pub(crate) fn send_bytes(mut stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let buffer = buffer(64 << 10);
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while let Some(part) = buffer.get(..left.min(buffer.len())).filter(|part| !part.is_empty()) {
        stream.write_all(part)?;
        left -= part.len();
    }
    Ok(())
}

/// Reads up to the end of the stream or of the time. Returns the number of bytes. Calls `progress` with the
/// number of bytes so far.
pub(crate) fn drain_up_to(
    mut stream: &TcpStream,
    end: Instant,
    mut progress: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let mut buffer = vec![0; MIN_DRAIN_BUFFER];
    let mut total = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(total);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(size) => total += u64::try_from(size).unwrap_or_default(),
            Err(error) if is_timeout(&error) => return Ok(total),
            Err(error) => return Err(error),
        }
        progress(total)?;
    }
}

fn counting_sink(mut stream: &TcpStream, milliseconds: u32) -> io::Result<()> {
    let mut last_sent = Instant::now();
    let end = last_sent + Duration::from_millis(milliseconds.into());
    let total = drain_up_to(stream, end, |total| {
        if last_sent.elapsed() >= COUNT_INTERVAL {
            stream.write_all(&total.to_le_bytes())?;
            last_sent = Instant::now();
        }
        Ok(())
    })?;
    stream.write_all(&total.to_le_bytes())
}

fn sink(mut stream: &TcpStream) -> io::Result<()> {
    let total = drain(stream, 0)?;
    stream.write_all(&total.to_le_bytes())
}

fn source(stream: &TcpStream, message: u32, milliseconds: u32) -> io::Result<()> {
    send_messages(stream, message, Duration::from_millis(milliseconds.into())).map(drop)
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
