//! A host whose sockets are buffers.
//!
//! A test reads and writes the buffers as the peer would, and sets errors, room and the number of
//! descriptors. Nothing happens by itself, so a test controls each step.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use crate::host::{Datagram, Host, Protocol, Token};

/// A TCP socket, as the test sees it.
#[derive(Debug, Default)]
pub(super) struct Socket {
    pub(super) token: u64,
    pub(super) to: Option<SocketAddr>,
    /// Bytes that have come from the peer, and true if no more follow.
    pub(super) received: VecDeque<u8>,
    pub(super) has_ended: bool,
    /// Number of bytes that were peeked.
    peeked: usize,
    /// Bytes for the peer, and the number of bytes that the socket still takes.
    pub(super) sent: Vec<u8>,
    pub(super) room: usize,
    pub(super) is_shut_down: bool,
    pub(super) is_reset: bool,
    pub(super) is_closed: bool,
    pub(super) error: Option<ErrorKind>,
}

/// A handle of a socket, which closes it when dropped.
#[derive(Debug)]
pub(super) struct Stream(Rc<RefCell<Socket>>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.borrow_mut().is_closed = true;
    }
}

/// A UDP socket.
#[derive(Debug, Default)]
pub(super) struct DatagramSocket {
    pub(super) token: u64,
    pub(super) protocol: Option<Protocol>,
    pub(super) to: Option<SocketAddr>,
    pub(super) received: VecDeque<Result<Vec<u8>, ErrorKind>>,
    pub(super) sent: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct FakeHost {
    pub(super) now: u64,
    pub(super) sockets: Vec<Rc<RefCell<Socket>>>,
    pub(super) datagram_sockets: Vec<Rc<RefCell<DatagramSocket>>>,
    /// Clients of each listener, and datagrams at each forwarded port, from and to peers.
    pub(super) clients: Vec<VecDeque<SocketAddr>>,
    pub(super) port_received: Vec<VecDeque<(SocketAddr, Vec<u8>)>>,
    pub(super) port_sent: Vec<(usize, SocketAddr, Vec<u8>)>,
    /// Error of all calls that connect.
    pub(super) connect_error: Option<ErrorKind>,
    pub(super) is_closed_to_guest: bool,
    /// Number of bytes that each new socket takes.
    pub(super) room: usize,
    /// Number of sockets for which there are descriptors.
    pub(super) max_sockets: usize,
}

/// Number of the error "too many open files" (errno(3), `EMFILE`).
const EMFILE: i32 = 24;

impl FakeHost {
    pub(super) fn new() -> Self {
        Self { room: usize::MAX, max_sockets: usize::MAX, ..Self::default() }
    }

    /// Returns the number of open sockets.
    pub(super) fn open_sockets(&self) -> usize {
        let streams = self.sockets.iter().filter(|socket| !socket.borrow().is_closed).count();
        // A flow has a second reference.
        streams + self.datagram_sockets.iter().filter(|socket| Rc::strong_count(socket) > 1).count()
    }

    fn check_descriptors(&self) -> io::Result<()> {
        if self.max_sockets == usize::MAX || self.open_sockets() < self.max_sockets {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(EMFILE))
    }

    fn socket(&mut self, token: Token, to: Option<SocketAddr>) -> Stream {
        let socket = Socket { token: token.into(), to, room: self.room, ..Socket::default() };
        let socket = Rc::new(RefCell::new(socket));
        self.sockets.push(Rc::clone(&socket));
        Stream(socket)
    }
}

fn write(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
    if let Some(error) = socket.error {
        return Err(error.into());
    }
    assert!(!socket.is_shut_down);
    let count = bytes.len().min(socket.room);
    if count == 0 && !bytes.is_empty() {
        return Err(ErrorKind::WouldBlock.into());
    }
    socket.room -= count;
    socket.sent.extend(&bytes[..count]);
    Ok(count)
}

impl Host for FakeHost {
    type Stream = Stream;
    type Datagrams = Rc<RefCell<DatagramSocket>>;
    type Frame<'a> = &'a [u8];
    type Space<'a> = &'a mut [u8];

    fn now(&self) -> u64 {
        self.now
    }

    fn is_permitted(&mut self, _: Protocol, _: SocketAddr) -> bool {
        !self.is_closed_to_guest
    }

    fn connect(&mut self, to: SocketAddr, token: Token) -> io::Result<Stream> {
        self.connect_error.map_or(Ok(()), Err)?;
        self.check_descriptors()?;
        Ok(self.socket(token, Some(to)))
    }

    fn take_error(&mut self, stream: &Stream) -> Option<io::Error> {
        stream.0.borrow_mut().error.take().map(io::Error::from)
    }

    fn accept(&mut self, listener: usize, token: Token) -> io::Result<(Stream, SocketAddr)> {
        self.clients[listener].front().ok_or(ErrorKind::WouldBlock)?;
        self.check_descriptors()?;
        let from = self.clients[listener].pop_front().ok_or(ErrorKind::WouldBlock)?;
        Ok((self.socket(token, None), from))
    }

    fn send(&mut self, stream: &Stream, frame: &&[u8], part: Range<usize>) -> io::Result<usize> {
        write(&mut stream.0.borrow_mut(), &frame[part])
    }

    fn send_bytes(&mut self, stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
        write(&mut stream.0.borrow_mut(), bytes)
    }

    fn copy(&mut self, frame: &&[u8], part: Range<usize>, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&frame[part]);
    }

    fn peek(&mut self, stream: &Stream, space: &mut &mut [u8], part: Range<usize>) -> io::Result<usize> {
        let mut socket = stream.0.borrow_mut();
        if let Some(error) = socket.error {
            return Err(error.into());
        }
        let peeked = socket.peeked;
        let count = part.len().min(socket.received.len() - peeked);
        if count == 0 && !socket.has_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (place, byte) in space[part].iter_mut().zip(socket.received.range(peeked..)) {
            *place = *byte;
        }
        socket.peeked += count;
        Ok(count)
    }

    fn rewind(&mut self, stream: &Stream) {
        stream.0.borrow_mut().peeked = 0;
    }

    fn discard(&mut self, stream: &Stream, count: usize) {
        let mut socket = stream.0.borrow_mut();
        socket.received.drain(..count);
        // As Linux does (`sk_peek_offset_bwd`).
        socket.peeked = socket.peeked.saturating_sub(count);
    }

    fn shutdown(&mut self, stream: &Stream) {
        stream.0.borrow_mut().is_shut_down = true;
    }

    fn reset(&mut self, stream: Stream) {
        stream.0.borrow_mut().is_reset = true;
    }

    fn open(&mut self, protocol: Protocol, to: SocketAddr, token: Token) -> io::Result<Self::Datagrams> {
        self.connect_error.map_or(Ok(()), Err)?;
        self.check_descriptors()?;
        let socket = DatagramSocket {
            token: token.into(),
            protocol: Some(protocol),
            to: Some(to),
            ..DatagramSocket::default()
        };
        let socket = Rc::new(RefCell::new(socket));
        self.datagram_sockets.push(Rc::clone(&socket));
        Ok(socket)
    }

    fn send_datagram(
        &mut self,
        socket: &Self::Datagrams,
        frame: &&[u8],
        part: Range<usize>,
    ) -> io::Result<()> {
        socket.borrow_mut().sent.push(frame[part].to_vec());
        Ok(())
    }

    fn reply(&mut self, port: usize, to: SocketAddr, frame: &&[u8], part: Range<usize>) -> io::Result<()> {
        self.port_sent.push((port, to, frame[part].to_vec()));
        Ok(())
    }

    fn receive(
        &mut self,
        socket: &Self::Datagrams,
        header: &mut [u8],
        space: &mut &mut [u8],
        part: Range<usize>,
    ) -> io::Result<usize> {
        let received = socket.borrow_mut().received.pop_front().ok_or(ErrorKind::WouldBlock)?;
        let bytes = received.map_err(io::Error::from)?;
        let (start, rest) = bytes.split_at(header.len());
        header.copy_from_slice(start);
        let part_length = part.len();
        for (place, byte) in space[part].iter_mut().zip(rest) {
            *place = *byte;
        }
        Ok(rest.len().min(part_length))
    }

    fn receive_from(
        &mut self,
        port: usize,
        space: &mut &mut [u8],
        part: Range<usize>,
    ) -> io::Result<Datagram> {
        let part_length = part.len();
        let (from, bytes) = self.port_received[port].pop_front().ok_or(ErrorKind::WouldBlock)?;
        for (place, byte) in space[part].iter_mut().zip(&bytes) {
            *place = *byte;
        }
        Ok(Datagram { length: bytes.len().min(part_length), from })
    }
}
