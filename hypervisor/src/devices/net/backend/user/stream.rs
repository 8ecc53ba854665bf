//! TCP sockets of the host, whose bytes stay in the socket until the guest has acknowledged them.
//!
//! Bytes for the guest are first peeked at (`MSG_PEEK`), which copies them to guest memory. When the guest
//! acknowledges them, they are discarded. If they must be retransmitted, they are peeked at again. So the
//! socket's receive buffer is the retransmission buffer, and this process stores no data.
//!
//! Each peek must begin where the previous peek ended. Linux keeps this offset since 6.9 (IPv4) and 6.12
//! (IPv6), with `SO_PEEK_OFF`. An older kernel always peeks from the first byte of the receive buffer. On
//! such a kernel, each peek copies the bytes before the offset again, to a buffer that is never read.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketType, sockopt};
use vm_memory::VolatileSlice;

use super::sockets::socket;
use crate::devices::net::backend::iovec;

/// TCP socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    /// Offset of the next peek: the number of bytes that were peeked at and not discarded. `None` if the
    /// kernel keeps this offset.
    peeked: Option<Cell<usize>>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    /// Sets the [options](set_options) of `socket`, and returns its stream.
    ///
    /// # Errors
    ///
    /// The host's error.
    pub(super) fn new(socket: OwnedFd, keeps_offset: bool) -> io::Result<Self> {
        set_options(socket.as_fd(), keeps_offset)?;
        Ok(Self::accepted(socket, keeps_offset))
    }

    /// Returns the stream of an accepted socket, which has inherited the [options](set_options) of its
    /// listener.
    pub(super) fn accepted(socket: OwnedFd, keeps_offset: bool) -> Self {
        Self { socket, peeked: (!keeps_offset).then(Cell::default) }
    }

    /// Copies the next bytes to `buffers`, leaves them in the socket, and returns their number. `unread` is a
    /// buffer for the bytes before the peek offset.
    ///
    /// # Errors
    ///
    /// Those of recv(2).
    pub(super) fn peek(&self, unread: &mut Vec<u8>, buffers: &[VolatileSlice<'_>]) -> io::Result<usize> {
        let Some(peeked) = &self.peeked else { return iovec::peek(self.as_fd(), &mut [], buffers) };
        let start = peeked.get();
        let mut count = self.peek_after(start, unread, buffers)?;
        if count == 0 && start > 0 {
            let end = self.end()?;
            // Peeks again: bytes may have arrived between the first peek and the check for the end of the
            // stream.
            count = self.peek_after(start, unread, buffers)?;
            if count == 0 && !end {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        peeked.set(start + count);
        Ok(count)
    }

    fn peek_after(
        &self,
        start: usize,
        unread: &mut Vec<u8>,
        buffers: &[VolatileSlice<'_>],
    ) -> io::Result<usize> {
        if unread.len() < start {
            unread.resize(start, 0);
        }
        let count = iovec::peek(self.as_fd(), unread.get_mut(..start).unwrap_or_default(), buffers)?;
        Ok(count.saturating_sub(start))
    }

    /// Returns true if the peer has ended the stream.
    fn end(&self) -> io::Result<bool> {
        let mut events = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let [event] = events;
        if event.revents().contains(PollFlags::ERR) {
            sockopt::socket_error(&self.socket)??;
            return Err(ErrorKind::ConnectionReset.into());
        }
        Ok(event.revents().intersects(PollFlags::RDHUP | PollFlags::HUP))
    }

    /// Makes [`Self::peek`] begin with the first byte again.
    pub(super) fn rewind(&self) {
        match &self.peeked {
            Some(peeked) => peeked.set(0),
            None => {
                let _: io::Result<()> = iovec::set_peek_offset(self.as_fd(), 0);
            }
        }
    }

    /// Removes the first `count` bytes from the socket. They were peeked at before.
    pub(super) fn discard(&self, mut count: usize) {
        // The bytes have arrived, so the call does not wait. One call may remove fewer than `count` bytes.
        while let Ok(done @ 1..) = iovec::discard(self.as_fd(), count) {
            count = count.saturating_sub(done);
            if let Some(peeked) = &self.peeked {
                peeked.set(peeked.get().saturating_sub(done));
            }
            if count == 0 {
                break;
            }
        }
    }
}

/// Sets the options of a stream, or of a listener whose streams inherit them.
///
/// # Errors
///
/// The host's error.
pub(super) fn set_options(socket: BorrowedFd<'_>, keeps_offset: bool) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    // The network answers the guest's keep-alive probes itself, so the host probes the peer.
    sockopt::set_socket_keepalive(socket, true)?;
    // The guest's TCP treats urgent data as ordinary data, and the socket must do the same.
    sockopt::set_socket_oobinline(socket, true)?;
    if keeps_offset {
        iovec::set_peek_offset(socket, 0)?;
    }
    Ok(())
}

/// Returns true if the host's kernel keeps the peek offset of TCP sockets, for each IP version that it
/// supports.
pub(super) fn keeps_peek_offset() -> bool {
    let any = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))];
    any.into_iter().all(|address| match socket(address, SocketType::STREAM, None) {
        Ok(stream) => iovec::set_peek_offset(stream.as_fd(), 0).is_ok(),
        Err(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::{Stream, keeps_peek_offset, set_options};
    use rustix::net::sockopt::{self, set_socket_linger};
    use std::io::{ErrorKind, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;
    use vm_memory::VolatileSlice;

    /// Connections, one for each way to peek that this kernel supports. The first end is peeked at, the
    /// second is the peer.
    fn pairs() -> impl Iterator<Item = (Stream, TcpStream)> {
        [false, true].into_iter().filter(|&keeps| !keeps || keeps_peek_offset()).map(|keeps| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            set_options(listener.as_fd(), keeps).unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            (Stream::accepted(socket.into(), keeps), peer)
        })
    }

    fn peek(stream: &Stream, max: usize) -> Result<String, ErrorKind> {
        let mut bytes = vec![0; max];
        let count = stream.peek(&mut vec![7; 2], &[VolatileSlice::from(&mut *bytes)]);
        let count = count.map_err(|error| error.kind())?;
        Ok(String::from_utf8(bytes[..count].to_vec()).unwrap())
    }

    /// Returns the next bytes, and waits for the first of them: the loopback delivers at once, or a little
    /// later.
    fn peek_next(stream: &Stream, max: usize) -> Result<String, ErrorKind> {
        loop {
            match peek(stream, max) {
                Err(ErrorKind::WouldBlock) => std::thread::yield_now(),
                result => return result,
            }
        }
    }

    #[test]
    fn bytes_are_peeked_at_in_order_until_they_are_removed() {
        for (stream, mut peer) in pairs() {
            assert_eq!(peek(&stream, 9), Err(ErrorKind::WouldBlock));
            peer.write_all(b"abcdefgh").unwrap();
            assert_eq!(peek_next(&stream, 3).as_deref(), Ok("abc"));
            assert_eq!(peek_next(&stream, 2).as_deref(), Ok("de"));
            stream.discard(4);
            assert_eq!(peek_next(&stream, 2).as_deref(), Ok("fg"));
            stream.rewind();
            assert_eq!(peek_next(&stream, 9).as_deref(), Ok("efgh"));
            assert_eq!(peek(&stream, 9), Err(ErrorKind::WouldBlock));
            stream.discard(4);
            assert_eq!(peek(&stream, 9), Err(ErrorKind::WouldBlock));
            peer.write_all(b"ij").unwrap();
            assert_eq!(peek_next(&stream, 9).as_deref(), Ok("ij"));
        }
    }

    #[test]
    fn accepted_streams_have_the_options_of_their_listener() {
        for (stream, _peer) in pairs() {
            assert!(sockopt::tcp_nodelay(&stream).unwrap());
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert!(sockopt::socket_oobinline(&stream).unwrap());
        }
    }

    #[test]
    fn end_of_the_stream_comes_after_all_bytes() {
        for (stream, mut peer) in pairs() {
            peer.write_all(b"abc").unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            assert_eq!(peek_next(&stream, 2).as_deref(), Ok("ab"));
            assert_eq!(peek_next(&stream, 2).as_deref(), Ok("c"));
            assert_eq!(peek_next(&stream, 2).as_deref(), Ok(""));
            stream.rewind();
            assert_eq!(peek_next(&stream, 9).as_deref(), Ok("abc"));
            stream.discard(3);
            assert_eq!(peek_next(&stream, 9).as_deref(), Ok(""));
        }
    }

    #[test]
    fn reset_is_an_error_after_all_bytes() {
        for (stream, mut peer) in pairs() {
            peer.write_all(b"abc").unwrap();
            assert_eq!(peek_next(&stream, 9).as_deref(), Ok("abc"));
            set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
            drop(peer);
            assert_eq!(peek_next(&stream, 9), Err(ErrorKind::ConnectionReset));
        }
    }
}
