//! Buffered input from a client, with a deadline.
//!
//! There is one deadline for the whole request, and not a timeout for each read. So a client that sends a
//! byte now and then cannot keep a connection for ever. Bytes that are received after the end of a request
//! stay in the buffer and begin the next request (pipelining). The sizes of lines and of the whole head are
//! limited, so that a client cannot make the server allocate without bound.

use std::io;
use std::mem;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::status::Status;

/// Reason why no request was received.
#[derive(Debug)]
pub(crate) enum ReceiveError {
    /// The client closed the connection between two requests, or was idle until the deadline.
    Closed,
    /// The request is rejected with this status, and the connection is closed.
    Rejected(Status),
    /// The connection failed.
    Io(io::Error),
}

impl From<Status> for ReceiveError {
    fn from(status: Status) -> Self {
        Self::Rejected(status)
    }
}

/// A reader with a deadline.
pub(crate) trait DeadlineRead {
    /// Reads into `buffer`, and returns the number of bytes, which is 0 at the end of the stream. Fails with
    /// `WouldBlock` or `TimedOut` if nothing arrives before the deadline.
    fn read_until_deadline(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize>;
}

impl DeadlineRead for &TcpStream {
    fn read_until_deadline(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        io::Read::read(self, buffer)
    }
}

/// A reader, and the input that was received from it and has not been consumed yet.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer<S> {
    source: S,
    buffer: Vec<u8>,
}

impl<S: DeadlineRead> ReceiveBuffer<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// Reads up to and including the next empty line: at most `max` bytes, and at most `max_line` bytes in
    /// the first line.
    ///
    /// Empty lines in front are skipped (RFC 9112, section 2.2).
    pub(crate) fn read_head(
        &mut self,
        max_line: usize,
        max: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, ReceiveError> {
        let mut searched = 0;
        loop {
            self.skip_empty_lines();
            let end = find(&self.buffer, b"\r\n\r\n", searched).map(|end| end + 4);
            if end.unwrap_or(self.buffer.len() + 1) > max || self.first_line_is_longer(max_line) {
                return Err(self.too_long(max_line).into());
            }
            if let Some(end) = end {
                return Ok(self.take(end));
            }
            // The empty line may be split between two reads.
            searched = self.buffer.len().saturating_sub(3);
            let size = self.read_until_deadline(deadline)?;
            if size == 0 && self.buffer.is_empty() {
                return Err(ReceiveError::Closed);
            } else if size == 0 {
                return Err(Status::BadRequest.into());
            }
        }
    }

    /// Reads a line of at most `max` bytes, without its CRLF.
    pub(crate) fn read_line(&mut self, max: usize, deadline: Instant) -> Result<Vec<u8>, ReceiveError> {
        let mut searched = 0;
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n", searched).filter(|end| *end <= max) {
                let mut line = self.take(end + 2);
                line.truncate(end);
                return Ok(line);
            }
            if self.buffer.len() > max + 1 {
                return Err(Status::BadRequest.into());
            }
            searched = self.buffer.len().saturating_sub(1);
            self.read_more(deadline)?;
        }
    }

    /// Reads `size` bytes.
    pub(crate) fn read_exact(&mut self, size: usize, deadline: Instant) -> Result<Vec<u8>, ReceiveError> {
        while self.buffer.len() < size {
            self.read_more(deadline)?;
        }
        Ok(self.take(size))
    }

    /// Returns true if there is unconsumed input.
    pub(crate) fn has_buffered(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn skip_empty_lines(&mut self) {
        while self.buffer.starts_with(b"\r\n") {
            self.take(2);
        }
    }

    fn first_line_is_longer(&self, max: usize) -> bool {
        self.buffer.len() > max && find(&self.buffer, b"\r\n", 0).is_none_or(|end| end > max)
    }

    /// Returns the status for a request head that is too long. The status tells if the request line or the
    /// fields are too long.
    fn too_long(&self, max_line: usize) -> Status {
        if self.first_line_is_longer(max_line) {
            Status::UriTooLong
        } else {
            Status::RequestHeaderFieldsTooLarge
        }
    }

    fn read_more(&mut self, deadline: Instant) -> Result<(), ReceiveError> {
        // A truncated message is an error (RFC 9112, section 8).
        if self.read_until_deadline(deadline)? == 0 { Err(Status::BadRequest.into()) } else { Ok(()) }
    }

    fn read_until_deadline(&mut self, deadline: Instant) -> Result<usize, ReceiveError> {
        let mut bytes = [0; 4096];
        let size = loop {
            match self.source.read_until_deadline(&mut bytes, deadline) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let size = size.map_err(|error| match error.kind() {
            // A client that has sent nothing gets no response.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if self.buffer.is_empty() => {
                ReceiveError::Closed
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Status::RequestTimeout.into(),
            _ => ReceiveError::Io(error),
        })?;
        self.buffer.extend(bytes.iter().take(size));
        Ok(size)
    }

    /// Consumes the first `size` bytes.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(size.min(self.buffer.len()));
        mem::replace(&mut self.buffer, rest)
    }
}

/// Returns the position of `pattern` in `bytes`, at or after `from`.
fn find(bytes: &[u8], pattern: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(pattern.len()).position(|window| window == pattern).map(|position| position + from)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;
    use std::time::{Duration, Instant};

    use super::{DeadlineRead, ReceiveBuffer, ReceiveError};
    use crate::status::Status;

    /// Input in pieces, followed by the end of the stream or a timeout.
    #[derive(Debug)]
    pub(crate) struct PieceReader {
        pub(crate) pieces: Vec<Vec<u8>>,
        pub(crate) ends: bool,
    }

    impl DeadlineRead for PieceReader {
        fn read_until_deadline(&mut self, buffer: &mut [u8], _deadline: Instant) -> io::Result<usize> {
            while self.pieces.first().is_some_and(Vec::is_empty) {
                self.pieces.remove(0);
            }
            let silence = if self.ends { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
            let Some(piece) = self.pieces.first_mut() else { return silence };
            let size = piece.len().min(buffer.len());
            buffer[..size].copy_from_slice(&piece[..size]);
            piece.drain(..size);
            Ok(size)
        }
    }

    /// Input in pieces of `piece` bytes, followed by the end of the stream or a timeout.
    pub(crate) fn input(bytes: &[u8], piece: usize, ends: bool) -> ReceiveBuffer<PieceReader> {
        ReceiveBuffer::new(PieceReader {
            pieces: bytes.chunks(piece.max(1)).map(<[u8]>::to_vec).collect(),
            ends,
        })
    }

    pub(crate) fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn rejected_status<T: std::fmt::Debug>(result: Result<T, ReceiveError>) -> Status {
        match result {
            Err(ReceiveError::Rejected(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn request_heads_are_read_in_sequence() {
        for piece in [1, 2, 3, 5, 100] {
            let mut input = input(b"\r\n\r\na\r\nb\r\n\r\nc\r\n\r\nrest", piece, true);
            assert_eq!(input.read_head(10, 20, deadline()).unwrap(), b"a\r\nb\r\n\r\n");
            assert_eq!(input.read_head(10, 20, deadline()).unwrap(), b"c\r\n\r\n");
            assert_eq!(input.read_exact(3, deadline()).unwrap(), b"res");
            assert_eq!(rejected_status(input.read_head(10, 20, deadline())), Status::BadRequest);
        }
    }

    #[test]
    fn oversized_input_is_rejected() {
        for piece in [1, 7, 1000] {
            let long_line = b"a".repeat(50);
            assert_eq!(
                rejected_status(input(&long_line, piece, true).read_head(10, 40, deadline())),
                Status::UriTooLong
            );
            let long_fields = b"a\r\n".repeat(30);
            let refusal = rejected_status(input(&long_fields, piece, true).read_head(10, 40, deadline()));
            assert_eq!(refusal, Status::RequestHeaderFieldsTooLarge);
            let long_fields = [&b"a\r\n"[..], &b"b".repeat(60), b"\r\n\r\n"].concat();
            let refusal = rejected_status(input(&long_fields, piece, true).read_head(10, 40, deadline()));
            assert_eq!(refusal, Status::RequestHeaderFieldsTooLarge);
            assert_eq!(
                rejected_status(input(b"12345678", piece, true).read_line(4, deadline())),
                Status::BadRequest
            );
        }
    }

    #[test]
    fn timeout_and_end_of_stream_are_distinguished() {
        assert!(matches!(input(b"", 1, true).read_head(10, 20, deadline()), Err(ReceiveError::Closed)));
        assert!(matches!(input(b"", 1, false).read_head(10, 20, deadline()), Err(ReceiveError::Closed)));
        assert_eq!(
            rejected_status(input(b"GE", 1, false).read_head(10, 20, deadline())),
            Status::RequestTimeout
        );
        assert_eq!(rejected_status(input(b"GE", 1, true).read_head(10, 20, deadline())), Status::BadRequest);
    }
}
