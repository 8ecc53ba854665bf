//! Helper functions of the rows.
//!
//! A row must print the same text in each run, so nothing here depends on the time that a machine takes.
//! Sockets are on the loopback interface and get free ports, which are never printed. Where a result depends
//! on a segment's arrival, [`settle`] waits for it. Durations are compared with a limit and printed as a word
//! ([`takes`], [`at_once`]). Large amounts of data are compared by a digest.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::sys;

/// Time in which pending segments arrive on the loopback interface.
const SETTLE_TIME: Duration = Duration::from_millis(40);

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpVersion {
    V4,
    V6,
}

impl IpVersion {
    /// The loopback address with a port.
    pub(crate) fn loopback(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::LOCALHOST, port).into(),
            Self::V6 => (Ipv6Addr::LOCALHOST, port).into(),
        }
    }

    /// The unspecified address, with a port.
    pub(crate) fn any(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
            Self::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        }
    }

    /// An address of no host: a documentation address (RFC 5737, RFC 3849).
    pub(crate) fn foreign(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::new(203, 0, 113, 77), port).into(),
            Self::V6 => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77), port).into(),
        }
    }

    /// The address family.
    pub(crate) fn family(self) -> i32 {
        match self {
            Self::V4 => sys::V4,
            Self::V6 => sys::V6,
        }
    }

    /// A listener on the loopback address, and its address.
    pub(crate) fn listener(self) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(self.loopback(0))?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    /// A listener with this backlog.
    pub(crate) fn listener_with(self, backlog: i32) -> io::Result<TcpListener> {
        let socket = self.stream_socket()?;
        sys::bind(&socket, self.loopback(0))?;
        sys::listen(&socket, backlog)?;
        Ok(TcpListener::from(socket))
    }

    /// A listener whose accept queue is full, its address, and the connection in its queue.
    pub(crate) fn full_listener(self) -> io::Result<(TcpListener, SocketAddr, TcpStream)> {
        let listener = self.listener_with(0)?;
        let address = listener.local_addr()?;
        let waiting = TcpStream::connect(address)?;
        settle();
        Ok((listener, address, waiting))
    }

    /// The two ends of a connection: the connecting and the accepted one.
    pub(crate) fn pair(self) -> io::Result<(TcpStream, TcpStream)> {
        let (listener, address) = self.listener()?;
        let one = TcpStream::connect(address)?;
        let (other, _) = listener.accept()?;
        Ok((one, other))
    }

    /// The two ends of a connection, with a small send buffer at the first and a small receive buffer at the
    /// second.
    pub(crate) fn small_pair(self) -> io::Result<(TcpStream, TcpStream)> {
        let (from, to) = self.pair()?;
        sys::set_option(&from, sys::SEND_BUFFER, 32 << 10)?;
        sys::set_option(&to, sys::RECEIVE_BUFFER, 32 << 10)?;
        Ok((from, to))
    }

    /// A datagram socket on the loopback address, and its address.
    pub(crate) fn datagrams(self) -> io::Result<(UdpSocket, SocketAddr)> {
        let socket = UdpSocket::bind(self.loopback(0))?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    }

    /// Two datagram sockets that are connected to each other.
    pub(crate) fn connected_datagrams(self) -> io::Result<(UdpSocket, UdpSocket)> {
        let (one, address) = self.datagrams()?;
        let (other, other_address) = self.datagrams()?;
        one.connect(other_address)?;
        other.connect(address)?;
        Ok((one, other))
    }

    /// A new stream socket.
    pub(crate) fn stream_socket(self) -> io::Result<OwnedFd> {
        sys::socket(self.family(), sys::SOCK_STREAM)
    }

    /// A new datagram socket.
    pub(crate) fn datagram_socket(self) -> io::Result<OwnedFd> {
        sys::socket(self.family(), sys::SOCK_DGRAM)
    }

    /// An address without a listener: its listener has just been closed.
    pub(crate) fn silent_address(self) -> io::Result<SocketAddr> {
        self.listener().map(|(_, address)| address)
    }

    /// An address without a datagram socket: its socket has just been closed.
    pub(crate) fn silent_datagram_address(self) -> io::Result<SocketAddr> {
        self.datagrams().map(|(_, address)| address)
    }
}

/// Waits until pending segments have arrived.
pub(crate) fn settle() {
    thread::sleep(SETTLE_TIME);
}

/// Reads once, up to 64 bytes.
pub(crate) fn read(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = stream.read(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// Peeks once, up to 64 bytes.
pub(crate) fn peek(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = stream.peek(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// Writes once.
pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.write(bytes)
}

/// Receives a datagram, up to 64 bytes of it.
pub(crate) fn receive(socket: &UdpSocket) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = socket.recv(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// Receives a datagram and its sender.
pub(crate) fn receive_from(socket: &UdpSocket) -> io::Result<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 64];
    let (size, sender) = socket.recv_from(&mut buffer)?;
    buffer.truncate(size);
    Ok((buffer, sender))
}

/// Writes until all buffers are full; returns the number of bytes. The stream is blocking afterwards.
pub(crate) fn fill(stream: &TcpStream) -> io::Result<usize> {
    let block = [b'x'; 16 << 10];
    let mut total = 0;
    stream.set_nonblocking(true)?;
    // Buffers that are full only for a moment have room again after a pause.
    for _ in 0..3 {
        while let Ok(size) = write(stream, &block) {
            total += size;
        }
        settle();
    }
    stream.set_nonblocking(false)?;
    Ok(total)
}

/// Reads `size` bytes from a non-blocking stream, and waits until the peer has received the window update.
pub(crate) fn drain(stream: &TcpStream, size: usize) -> io::Result<()> {
    let mut received = 0;
    while received < size {
        match read(stream) {
            Ok(bytes) if bytes.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => received += bytes.len(),
            Err(_) => settle(),
        }
    }
    settle();
    Ok(())
}

/// Joins a thread; a panic is an error.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("panic"))?
}

/// Runs `action`. Returns true if it took about `time`: it may end less than a clock tick too early, or a
/// little too late, since the host may be busy.
pub(crate) fn takes<T>(time: Duration, action: impl FnOnce() -> T) -> (T, &'static str) {
    let start = Instant::now();
    let result = action();
    let passed = start.elapsed();
    let verdict = if passed + Duration::from_millis(11) < time {
        "early"
    } else if passed < time + Duration::from_secs(5) {
        "in time"
    } else {
        "late"
    };
    (result, verdict)
}

/// Runs `action`. Returns true if it returned at once.
pub(crate) fn at_once<T>(action: impl FnOnce() -> T) -> (T, &'static str) {
    let start = Instant::now();
    let result = action();
    (result, if start.elapsed() < Duration::from_secs(2) { "at once" } else { "late" })
}

/// Bytes that look random and are the same for the same seed (a linear congruential generator, its upper
/// bits).
pub(crate) fn pattern(seed: u64, size: usize) -> Vec<u8> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let states = std::iter::successors(Some(seed), next).skip(1);
    states.flat_map(|state| state.to_be_bytes().into_iter().take(4)).take(size).collect()
}

/// A digest of bytes that come in pieces (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::new();
        digest.add(bytes);
        digest
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
