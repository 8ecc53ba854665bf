//! The host's side of the network: its sockets.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

/// Identifies a flow in the events of its socket. A token is a number of 62 bits: an index in a table, and a
/// generation. A number is reused only after 2^30 other flows have had the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        Self::from(token.generation) << 32 | Self::from(token.index)
    }
}

impl From<u64> for Token {
    fn from(number: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        Self { index: u32::from_le_bytes([a, b, c, d]), generation: u32::from_le_bytes([e, f, g, h]) }
    }
}

/// Protocols whose flows have sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP echo requests and replies.
    Echo,
}

/// Returns true if the error means that the host has no more descriptors or memory (`ENFILE`, `EMFILE`,
/// `ENOMEM`, `ENOBUFS`).
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || matches!(error.raw_os_error(), Some(23 | 24 | 12 | 105))
}

/// Received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Number of received bytes: the size of the space if the datagram is longer.
    pub length: usize,
    /// Its sender.
    pub from: SocketAddr,
}

/// Sockets of the host. No call blocks: a call that would block fails with [`io::ErrorKind::WouldBlock`], and
/// an event follows once the socket is ready. Events are edge-triggered (epoll(7), `EPOLLET`).
pub trait Host {
    /// TCP socket.
    type Stream;
    /// UDP socket, or ICMP echo socket.
    type Datagrams;
    /// Frame that the guest sends, in guest memory. The guest may modify it at any time.
    type Frame<'a>;
    /// Space in guest memory for a frame that the guest receives.
    type Space<'a>;

    /// Returns the monotonic time in nanoseconds.
    fn now(&self) -> u64;

    /// Returns true if the guest may open a flow to an address.
    fn is_permitted(&mut self, protocol: Protocol, to: SocketAddr) -> bool;

    /// Begins to connect a socket. The socket becomes writable when it is connected, or when the attempt has
    /// failed.
    ///
    /// # Errors
    ///
    /// Those of socket(2) and connect(2), except `EINPROGRESS`.
    fn connect(&mut self, to: SocketAddr, token: Token) -> io::Result<Self::Stream>;

    /// Returns the error that has ended a connection, or the attempt to connect (`SO_ERROR`).
    fn take_error(&mut self, stream: &Self::Stream) -> Option<io::Error>;

    /// Accepts a connection at the listener with this number. Returns the socket and the client's address.
    ///
    /// # Errors
    ///
    /// Those of accept(2).
    fn accept(&mut self, listener: usize, token: Token) -> io::Result<(Self::Stream, SocketAddr)>;

    /// Sends the bytes `part` of the guest's frame. Returns the number of bytes that the socket has taken.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    fn send(
        &mut self,
        stream: &Self::Stream,
        frame: &Self::Frame<'_>,
        part: Range<usize>,
    ) -> io::Result<usize>;

    /// Sends bytes. Returns the number of bytes that the socket has taken.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    fn send_bytes(&mut self, stream: &Self::Stream, bytes: &[u8]) -> io::Result<usize>;

    /// Appends a part of the guest's frame to `bytes`.
    fn copy(&mut self, frame: &Self::Frame<'_>, part: Range<usize>, bytes: &mut Vec<u8>);

    /// Copies received bytes to a part of the space, and leaves them in the socket. The next call continues
    /// after these bytes. Returns the number of copied bytes, 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of recv(2).
    fn peek(
        &mut self,
        stream: &Self::Stream,
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<usize>;

    /// Makes [`Self::peek`] begin again at the first byte that is not discarded.
    fn rewind(&mut self, stream: &Self::Stream);

    /// Removes the first `count` bytes from the socket. They were peeked at before.
    fn discard(&mut self, stream: &Self::Stream, count: usize);

    /// Ends the stream to the peer (`SHUT_WR`).
    fn shutdown(&mut self, stream: &Self::Stream);

    /// Closes a socket, and resets the connection to the peer.
    fn reset(&mut self, stream: Self::Stream);

    /// Creates a socket that exchanges datagrams with one peer.
    ///
    /// # Errors
    ///
    /// Those of socket(2) and connect(2).
    fn open(&mut self, protocol: Protocol, to: SocketAddr, token: Token) -> io::Result<Self::Datagrams>;

    /// Sends a part of the guest's frame as a datagram.
    ///
    /// # Errors
    ///
    /// Those of send(2), including ICMP errors about previous datagrams.
    fn send_datagram(
        &mut self,
        socket: &Self::Datagrams,
        frame: &Self::Frame<'_>,
        part: Range<usize>,
    ) -> io::Result<()>;

    /// Sends a part of the guest's frame as a datagram to a client, from the forwarded port with this number.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    fn reply(
        &mut self,
        port: usize,
        to: SocketAddr,
        frame: &Self::Frame<'_>,
        part: Range<usize>,
    ) -> io::Result<()>;

    /// Receives a datagram from the peer: its first bytes into `header`, the others into a part of the space.
    /// Returns the number of bytes in the space: the size of the part if the datagram is longer.
    ///
    /// # Errors
    ///
    /// Those of recv(2), including ICMP errors about previous datagrams.
    fn receive(
        &mut self,
        socket: &Self::Datagrams,
        header: &mut [u8],
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<usize>;

    /// Receives a datagram at the forwarded port with this number into a part of the space.
    ///
    /// # Errors
    ///
    /// Those of recvfrom(2).
    fn receive_from(
        &mut self,
        port: usize,
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<Datagram>;
}
