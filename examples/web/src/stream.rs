//! An adapter from mio's streams to hyper's I/O traits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;
use mio::net::TcpStream;

/// Maximum number of bytes of a read.
const READ_SIZE: usize = 16 << 10;

/// A non-blocking stream. It registers no wakers: the executor polls the future whenever the stream is ready.
#[derive(Debug)]
pub(crate) struct AsyncStream<'a>(pub(crate) &'a TcpStream);

/// `Pending` if the call would block, else its result.
fn ready<T>(mut call: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return Poll::Ready(result),
        }
    }
}

impl hyper::rt::Read for AsyncStream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut room = [0; READ_SIZE];
        let (room, _) = room.split_at_mut(cursor.remaining().min(READ_SIZE));
        ready(|| self.0.read(room)).map_ok(|size| cursor.put_slice(room.split_at(size).0))
    }
}

impl hyper::rt::Write for AsyncStream<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready(|| self.0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready(|| self.0.write_vectored(parts))
    }
}
