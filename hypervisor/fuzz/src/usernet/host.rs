//! A host whose sockets are controlled by the fuzzer's input: how much they have received, how much they
//! take, and how they fail.
//!
//! Each byte of a stream is a function of its position (`byte`). So neither end stores the bytes that it has
//! sent, and each end can check every byte that it receives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use hermit_usernet::Readiness;
use hermit_usernet::host::{Datagram, Host, Protocol, Token};

/// Number of the error "too many open files" (errno(3), `EMFILE`).
const EMFILE: i32 = 24;

/// Maximum number of bytes or datagrams that a socket has received.
const MAX_RECEIVED: usize = 1 << 20;
const MAX_DATAGRAMS: usize = 64;

/// Returns the byte of a stream at a position.
pub(super) fn byte(at: u32) -> u8 {
    let [a, b, c, d] = at.to_le_bytes();
    a ^ b ^ c ^ d
}

/// A TCP socket.
#[derive(Debug, Default)]
pub(super) struct Socket {
    pub(super) token: u64,
    /// Position in the stream of the first byte that was not discarded.
    start: u32,
    /// Number of received bytes that are not discarded, and number of bytes that were peeked at.
    received: usize,
    peeked: usize,
    has_ended: bool,
    /// Error that the next call reports.
    error: Option<ErrorKind>,
    /// True if the error was reported.
    is_dead: bool,
    /// Number of bytes that the socket takes, and position of the next one in the guest's stream.
    room: usize,
    next: u32,
    is_shut_down: bool,
}

impl Socket {
    /// State as epoll(7) reports it.
    pub(super) fn readiness(&self) -> Readiness {
        let is_failed = self.error.is_some() || self.is_dead;
        let is_readable = self.received > self.peeked || self.has_ended || is_failed;
        let mut readiness = Readiness::empty();
        readiness.set(Readiness::READABLE, is_readable);
        readiness.set(Readiness::WRITABLE, self.room > 0 || is_failed);
        readiness.set(Readiness::HANG_UP, self.has_ended || is_failed);
        readiness.set(Readiness::FAILED, is_failed || self.has_ended && self.is_shut_down);
        readiness
    }

    /// Receives bytes from the peer.
    pub(super) fn arrive(&mut self, count: usize) {
        if !self.has_ended && self.error.is_none() && !self.is_dead {
            self.received = (self.received + count).min(MAX_RECEIVED);
        }
    }

    /// The peer ends its stream.
    pub(super) const fn hang_up(&mut self) {
        self.has_ended = true;
    }

    /// The peer reads.
    pub(super) const fn make_room(&mut self, count: usize) {
        self.room = self.room.saturating_add(count);
    }

    /// The connection fails.
    pub(super) fn fail(&mut self, error: ErrorKind) {
        if !self.is_dead {
            self.error = Some(error);
        }
    }

    fn take_error(&mut self) -> Option<ErrorKind> {
        let error = self.error.take();
        self.is_dead |= error.is_some();
        error
    }
}

/// A flow's reference to a socket. The host has another reference. It is the only one when the flow has
/// closed the socket.
#[derive(Debug)]
pub(super) struct Handle<T>(Rc<RefCell<T>>);

/// A socket of datagrams.
#[derive(Debug)]
pub(super) struct DatagramSocket {
    pub(super) token: u64,
    protocol: Protocol,
    is_v4: bool,
    received: VecDeque<Result<usize, ErrorKind>>,
}

impl DatagramSocket {
    /// Receives a datagram of this number of bytes, or an error.
    pub(super) fn arrive(&mut self, result: Result<usize, ErrorKind>) {
        if self.received.len() < MAX_DATAGRAMS {
            self.received.push_back(result);
        }
    }
}

/// How the next calls fail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failure {
    /// Number of calls.
    pub(super) calls: u8,
    /// Number of the error.
    pub(super) errno: i32,
}

/// The host.
#[derive(Debug)]
pub(super) struct FuzzHost {
    pub(super) now: u64,
    pub(super) streams: Vec<Rc<RefCell<Socket>>>,
    pub(super) datagrams: Vec<Rc<RefCell<DatagramSocket>>>,
    /// Clients of each listener, and datagrams at each forwarded port.
    pub(super) clients: Vec<VecDeque<SocketAddr>>,
    pub(super) port_received: Vec<VecDeque<(SocketAddr, usize)>>,
    pub(super) failure: Cell<Failure>,
    /// Maximum number of sockets.
    pub(super) max_sockets: usize,
    /// Maximum number of bytes that one call moves.
    pub(super) max_bytes: usize,
    /// Number of bytes that a new socket takes.
    pub(super) room: usize,
    pub(super) is_closed_to_guest: bool,
    /// Sequence number of the first byte of the guest's streams, and true if the guest's frames have the
    /// bytes of these streams.
    pub(super) first: u32,
    pub(super) has_content: bool,
}

impl FuzzHost {
    /// Creates a host with this number of listeners and forwarded ports. `first` is the sequence number of
    /// the first byte of the guest's streams.
    pub(super) fn new(listeners: usize, ports: usize, first: u32) -> Self {
        Self {
            now: 0,
            streams: Vec::new(),
            datagrams: Vec::new(),
            clients: vec![VecDeque::new(); listeners],
            port_received: vec![VecDeque::new(); ports],
            failure: Cell::default(),
            max_sockets: usize::MAX,
            max_bytes: usize::MAX,
            room: usize::MAX,
            is_closed_to_guest: false,
            first,
            has_content: true,
        }
    }

    /// Returns the number of open TCP sockets and of open datagram sockets. Removes closed sockets.
    pub(super) fn open_sockets(&mut self) -> (usize, usize) {
        self.streams.retain(|socket| Rc::strong_count(socket) > 1);
        self.datagrams.retain(|socket| Rc::strong_count(socket) > 1);
        (self.streams.len(), self.datagrams.len())
    }

    /// Returns an error if the input demands one.
    fn check(&self) -> io::Result<()> {
        let failure = self.failure.get();
        let Some(calls) = failure.calls.checked_sub(1) else { return Ok(()) };
        self.failure.set(Failure { calls, ..failure });
        Err(io::Error::from_raw_os_error(failure.errno))
    }

    /// Returns an error if the maximum number of sockets is open.
    fn check_new(&mut self) -> io::Result<()> {
        self.check()?;
        if self.max_sockets == usize::MAX {
            return Ok(());
        }
        let (streams, datagrams) = self.open_sockets();
        if streams + datagrams < self.max_sockets {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(EMFILE))
    }

    fn stream(&mut self, token: Token) -> Handle<Socket> {
        let socket = Socket { token: token.into(), room: self.room, next: self.first, ..Socket::default() };
        let socket = Rc::new(RefCell::new(socket));
        self.streams.push(Rc::clone(&socket));
        Handle(socket)
    }

    fn write(&self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = socket.take_error() {
            return Err(error.into());
        }
        if socket.is_dead {
            return Err(ErrorKind::BrokenPipe.into());
        }
        assert!(!socket.is_shut_down, "data follows the end of the stream");
        let count = bytes.len().min(socket.room).min(self.max_bytes);
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        for found in &bytes[..count] {
            assert!(!self.has_content || *found == byte(socket.next), "the peer receives other bytes");
            socket.next = socket.next.wrapping_add(1);
        }
        socket.room -= count;
        Ok(count)
    }
}

impl Host for FuzzHost {
    type Stream = Handle<Socket>;
    type Datagrams = Handle<DatagramSocket>;
    type Frame<'a> = &'a [u8];
    type Space<'a> = &'a mut [u8];

    fn now(&self) -> u64 {
        self.now
    }

    fn is_permitted(&mut self, _: Protocol, to: SocketAddr) -> bool {
        assert!(
            !to.ip().is_multicast() && !to.ip().is_unspecified() && to.ip().to_string() != "255.255.255.255"
        );
        !self.is_closed_to_guest
    }

    fn connect(&mut self, to: SocketAddr, token: Token) -> io::Result<Self::Stream> {
        assert!(!self.is_closed_to_guest && to.port() != 0);
        self.check_new()?;
        Ok(self.stream(token))
    }

    fn take_error(&mut self, stream: &Self::Stream) -> Option<io::Error> {
        stream.0.borrow_mut().take_error().map(io::Error::from)
    }

    fn accept(&mut self, listener: usize, token: Token) -> io::Result<(Self::Stream, SocketAddr)> {
        let client = *self.clients[listener].front().ok_or(ErrorKind::WouldBlock)?;
        self.check_new()?;
        self.clients[listener].pop_front();
        Ok((self.stream(token), client))
    }

    fn send(&mut self, stream: &Self::Stream, frame: &&[u8], part: Range<usize>) -> io::Result<usize> {
        self.write(&mut stream.0.borrow_mut(), &frame[part])
    }

    fn send_bytes(&mut self, stream: &Self::Stream, bytes: &[u8]) -> io::Result<usize> {
        self.write(&mut stream.0.borrow_mut(), bytes)
    }

    fn copy(&mut self, frame: &&[u8], part: Range<usize>, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&frame[part]);
    }

    fn peek(
        &mut self,
        stream: &Self::Stream,
        space: &mut &mut [u8],
        part: Range<usize>,
    ) -> io::Result<usize> {
        let mut socket = stream.0.borrow_mut();
        assert!(!part.is_empty(), "no bytes are asked for, which looks like the end of the stream");
        let count = (socket.received - socket.peeked).min(part.len()).min(self.max_bytes);
        if count > 0 {
            let start = socket.start.wrapping_add(u32::try_from(socket.peeked).expect("a small number"));
            for (at, place) in (0..).zip(&mut space[part][..count]) {
                *place = byte(start.wrapping_add(at));
            }
            socket.peeked += count;
            return Ok(count);
        }
        match socket.take_error() {
            Some(error) => Err(error.into()),
            None if socket.has_ended || socket.is_dead => Ok(0),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn rewind(&mut self, stream: &Self::Stream) {
        stream.0.borrow_mut().peeked = 0;
    }

    fn discard(&mut self, stream: &Self::Stream, count: usize) {
        let mut socket = stream.0.borrow_mut();
        assert!(count <= socket.received, "{count} of {} bytes are discarded", socket.received);
        socket.received -= count;
        socket.start = socket.start.wrapping_add(u32::try_from(count).expect("a small number"));
        // As Linux does (`sk_peek_offset_bwd`).
        socket.peeked = socket.peeked.saturating_sub(count);
    }

    fn shutdown(&mut self, stream: &Self::Stream) {
        let mut socket = stream.0.borrow_mut();
        assert!(!socket.is_shut_down, "a stream is ended twice");
        socket.is_shut_down = true;
    }

    fn reset(&mut self, stream: Self::Stream) {
        drop(stream);
    }

    fn open(&mut self, protocol: Protocol, to: SocketAddr, token: Token) -> io::Result<Self::Datagrams> {
        assert!(!self.is_closed_to_guest);
        self.check_new()?;
        let (token, is_v4) = (token.into(), to.is_ipv4());
        let socket = DatagramSocket { token, protocol, is_v4, received: VecDeque::new() };
        let socket = Rc::new(RefCell::new(socket));
        self.datagrams.push(Rc::clone(&socket));
        Ok(Handle(socket))
    }

    fn send_datagram(&mut self, _: &Self::Datagrams, frame: &&[u8], part: Range<usize>) -> io::Result<()> {
        assert!(part.start <= part.end && part.end <= frame.len());
        self.check()
    }

    fn reply(&mut self, port: usize, _: SocketAddr, frame: &&[u8], part: Range<usize>) -> io::Result<()> {
        assert!(part.start <= part.end && part.end <= frame.len() && port < self.port_received.len());
        self.check()
    }

    fn receive(
        &mut self,
        socket: &Self::Datagrams,
        header: &mut [u8],
        space: &mut &mut [u8],
        part: Range<usize>,
    ) -> io::Result<usize> {
        let mut socket = socket.0.borrow_mut();
        assert_eq!(!header.is_empty(), socket.protocol == Protocol::Echo);
        let length = socket.received.pop_front().ok_or(ErrorKind::WouldBlock)?.map_err(io::Error::from)?;
        let count = length.min(part.len());
        space[part][..count].fill(7);
        if let Some(reply) = header.first_chunk_mut::<8>() {
            write_echo_reply(reply, socket.is_v4, count);
        }
        Ok(count)
    }

    fn receive_from(
        &mut self,
        port: usize,
        space: &mut &mut [u8],
        part: Range<usize>,
    ) -> io::Result<Datagram> {
        let (from, length) = self.port_received[port].pop_front().ok_or(ErrorKind::WouldBlock)?;
        let count = length.min(part.len());
        space[part][..count].fill(7);
        Ok(Datagram { length, from })
    }
}

/// Writes the header of an echo reply whose data is `count` bytes with the value 7. Over IPv6, the host would
/// compute the checksum, so it stays 0.
fn write_echo_reply(header: &mut [u8; 8], is_v4: bool, count: usize) {
    *header = [if is_v4 { 0 } else { 129 }, 0, 0, 0, 0x12, 0x34, 0, 1];
    let mut message = header.to_vec();
    message.resize(8 + count, 7);
    let sum = !smoltcp::wire::checksum::data(&message);
    header[2..4].copy_from_slice(&sum.to_be_bytes());
}
