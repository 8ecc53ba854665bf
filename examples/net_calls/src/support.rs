//! What many rows need.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::sys;

/// What is on its way arrives within this time.
const SETTLED: Duration = Duration::from_millis(40);

/// A version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    V6,
}

impl Ip {
    /// The loopback address with a port.
    pub(crate) fn loopback(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::LOCALHOST, port).into(),
            Self::V6 => (Ipv6Addr::LOCALHOST, port).into(),
        }
    }

    /// Any address, with a port.
    pub(crate) fn any(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
            Self::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        }
    }

    /// An address that no machine has: those of documentation.
    pub(crate) fn foreign(self, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (Ipv4Addr::new(203, 0, 113, 77), port).into(),
            Self::V6 => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77), port).into(),
        }
    }

    /// The family's number.
    pub(crate) fn family(self) -> i32 {
        match self {
            Self::V4 => sys::V4,
            Self::V6 => sys::V6,
        }
    }

    /// A listener at the loopback address, and its address.
    pub(crate) fn listener(self) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(self.loopback(0))?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    /// A listener in whose queue only so many wait.
    pub(crate) fn listener_with(self, backlog: i32) -> io::Result<TcpListener> {
        let socket = self.stream_socket()?;
        sys::bind(&socket, self.loopback(0))?;
        sys::listen(&socket, backlog)?;
        Ok(TcpListener::from(socket))
    }

    /// A listener in whose queue there is no place left, its address, and the one who has the last place.
    pub(crate) fn full_listener(self) -> io::Result<(TcpListener, SocketAddr, TcpStream)> {
        let listener = self.listener_with(0)?;
        let address = listener.local_addr()?;
        let waiting = TcpStream::connect(address)?;
        settle();
        Ok((listener, address, waiting))
    }

    /// The two ends of a connection: the one that connected and the one that was accepted.
    pub(crate) fn pair(self) -> io::Result<(TcpStream, TcpStream)> {
        let (listener, address) = self.listener()?;
        let one = TcpStream::connect(address)?;
        let (other, _) = listener.accept()?;
        Ok((one, other))
    }

    /// The same; the first one's writes, and what it sends, find little room.
    pub(crate) fn small_pair(self) -> io::Result<(TcpStream, TcpStream)> {
        let (from, to) = self.pair()?;
        sys::set_option(&from, sys::SEND_BUFFER, 32 << 10)?;
        sys::set_option(&to, sys::RECEIVE_BUFFER, 32 << 10)?;
        Ok((from, to))
    }

    /// A datagram socket at the loopback address, and its address.
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

    /// A socket for streams that nothing has been done with.
    pub(crate) fn stream_socket(self) -> io::Result<OwnedFd> {
        sys::socket(self.family(), sys::SOCK_STREAM)
    }

    /// A socket for datagrams that nothing has been done with.
    pub(crate) fn datagram_socket(self) -> io::Result<OwnedFd> {
        sys::socket(self.family(), sys::SOCK_DGRAM)
    }

    /// An address at which nobody listens: somebody did a moment ago.
    pub(crate) fn silent_address(self) -> io::Result<SocketAddr> {
        self.listener().map(|(_, address)| address)
    }

    /// The same for datagrams.
    pub(crate) fn silent_datagram_address(self) -> io::Result<SocketAddr> {
        self.datagrams().map(|(_, address)| address)
    }
}

/// Lets what is on its way arrive.
pub(crate) fn settle() {
    thread::sleep(SETTLED);
}

/// What one read gives.
pub(crate) fn read(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = stream.read(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// What one read gives without taking it.
pub(crate) fn peek(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = stream.peek(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// One write.
pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.write(bytes)
}

/// The next datagram, up to 64 bytes of it.
pub(crate) fn receive(socket: &UdpSocket) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let size = socket.recv(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// The next datagram and its sender.
pub(crate) fn receive_from(socket: &UdpSocket) -> io::Result<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 64];
    let (size, sender) = socket.recv_from(&mut buffer)?;
    buffer.truncate(size);
    Ok((buffer, sender))
}

/// Writes until nobody takes any more, and says how much that was. The stream waits again afterwards.
pub(crate) fn fill(stream: &TcpStream) -> io::Result<usize> {
    let block = [b'x'; 16 << 10];
    let mut total = 0;
    stream.set_nonblocking(true)?;
    // Where it is full for a moment only, there is room again after it.
    for _ in 0..3 {
        while let Ok(size) = write(stream, &block) {
            total += size;
        }
        settle();
    }
    stream.set_nonblocking(false)?;
    Ok(total)
}

/// Reads so many bytes from a stream that does not wait, and lets the other side learn that there is room.
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

/// The result of a thread, whose panic is an error like any other.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("panic"))?
}

/// Does something and says whether it took about so long: a little less than asked for is a clock's grain, and a busy
/// machine may take a lot longer.
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

/// Does something and says whether it returned at once.
pub(crate) fn at_once<T>(action: impl FnOnce() -> T) -> (T, &'static str) {
    let start = Instant::now();
    let result = action();
    (result, if start.elapsed() < Duration::from_secs(2) { "at once" } else { "late" })
}

/// Bytes that look random and are the same for the same seed (a linear congruential generator, its upper bits).
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
