//! What comes from a client: bytes, in pieces of any size, until a moment.

use std::io;
use std::mem;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::status::Status;

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client has ended the connection where it may.
    Closed,
    /// The client asked for what it does not get; the connection is not worth keeping.
    Refused(Status),
    /// The connection is broken.
    Broken(io::Error),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// Where bytes come from.
pub(crate) trait Source {
    /// Waits for bytes until the moment; 0 is the end. Fails with `WouldBlock` or `TimedOut` if none came.
    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> io::Result<usize>;
}

impl Source for &TcpStream {
    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> io::Result<usize> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        io::Read::read(self, buffer)
    }
}

/// Bytes that have come and were not used yet.
#[derive(Debug)]
pub(crate) struct Input<S> {
    source: S,
    buffer: Vec<u8>,
}

impl<S: Source> Input<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// Everything up to the end of the next empty line, at most `most` bytes and `line` to the first line's end.
    ///
    /// Empty lines before it are ignored (RFC 9112, section 2.2).
    pub(crate) fn head(&mut self, line: usize, most: usize, until: Instant) -> Result<Vec<u8>, Failure> {
        let mut searched = 0;
        loop {
            self.skip_empty_lines();
            let end = find(&self.buffer, b"\r\n\r\n", searched).map(|end| end + 4);
            if end.unwrap_or(self.buffer.len() + 1) > most || self.first_line_is_longer(line) {
                return Err(self.too_long(line).into());
            }
            if let Some(end) = end {
                return Ok(self.take(end));
            }
            // The end may be cut in two.
            searched = self.buffer.len().saturating_sub(3);
            let size = self.receive(until)?;
            if size == 0 && self.buffer.is_empty() {
                return Err(Failure::Closed);
            } else if size == 0 {
                return Err(Status::BadRequest.into());
            }
        }
    }

    /// Everything up to the end of this line, without it.
    pub(crate) fn line(&mut self, most: usize, until: Instant) -> Result<Vec<u8>, Failure> {
        let mut searched = 0;
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n", searched).filter(|end| *end <= most) {
                let mut line = self.take(end + 2);
                line.truncate(end);
                return Ok(line);
            }
            if self.buffer.len() > most + 1 {
                return Err(Status::BadRequest.into());
            }
            searched = self.buffer.len().saturating_sub(1);
            self.more(until)?;
        }
    }

    /// The next `size` bytes.
    pub(crate) fn exactly(&mut self, size: usize, until: Instant) -> Result<Vec<u8>, Failure> {
        while self.buffer.len() < size {
            self.more(until)?;
        }
        Ok(self.take(size))
    }

    /// Whether something is there that no request was made of yet.
    pub(crate) fn has_some(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn skip_empty_lines(&mut self) {
        while self.buffer.starts_with(b"\r\n") {
            self.take(2);
        }
    }

    fn first_line_is_longer(&self, most: usize) -> bool {
        self.buffer.len() > most && find(&self.buffer, b"\r\n", 0).is_none_or(|end| end > most)
    }

    /// What to say of a head that is too long: whose fault it is, the first line's or the fields'.
    fn too_long(&self, line: usize) -> Status {
        if self.first_line_is_longer(line) { Status::UriTooLong } else { Status::RequestHeaderFieldsTooLarge }
    }

    fn more(&mut self, until: Instant) -> Result<(), Failure> {
        // A message that is cut off was not one (RFC 9112, section 8).
        if self.receive(until)? == 0 { Err(Status::BadRequest.into()) } else { Ok(()) }
    }

    fn receive(&mut self, until: Instant) -> Result<usize, Failure> {
        let mut bytes = [0; 4096];
        let size = loop {
            match self.source.receive(&mut bytes, until) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let size = size.map_err(|error| match error.kind() {
            // Who has said nothing at all is not told that it was too slow.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if self.buffer.is_empty() => Failure::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Status::RequestTimeout.into(),
            _ => Failure::Broken(error),
        })?;
        self.buffer.extend(bytes.iter().take(size));
        Ok(size)
    }

    /// The first bytes; the rest stays.
    fn take(&mut self, size: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(size.min(self.buffer.len()));
        mem::replace(&mut self.buffer, rest)
    }
}

/// Where a pattern begins, no earlier than `from`.
fn find(bytes: &[u8], pattern: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(pattern.len()).position(|window| window == pattern).map(|place| place + from)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;
    use std::time::{Duration, Instant};

    use super::{Failure, Input, Source};
    use crate::status::Status;

    /// Bytes that come in pieces, and then the end or a wait without one.
    #[derive(Debug)]
    pub(crate) struct Pieces {
        pub(crate) pieces: Vec<Vec<u8>>,
        pub(crate) ends: bool,
    }

    impl Source for Pieces {
        fn receive(&mut self, buffer: &mut [u8], _until: Instant) -> io::Result<usize> {
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

    /// Bytes that come one by one, or all at once.
    pub(crate) fn input(bytes: &[u8], piece: usize, ends: bool) -> Input<Pieces> {
        Input::new(Pieces { pieces: bytes.chunks(piece.max(1)).map(<[u8]>::to_vec).collect(), ends })
    }

    pub(crate) fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn refused<T: std::fmt::Debug>(result: Result<T, Failure>) -> Status {
        match result {
            Err(Failure::Refused(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn heads_follow_each_other() {
        for piece in [1, 2, 3, 5, 100] {
            let mut input = input(b"\r\n\r\na\r\nb\r\n\r\nc\r\n\r\nrest", piece, true);
            assert_eq!(input.head(10, 20, soon()).unwrap(), b"a\r\nb\r\n\r\n");
            assert_eq!(input.head(10, 20, soon()).unwrap(), b"c\r\n\r\n");
            assert_eq!(input.exactly(3, soon()).unwrap(), b"res");
            assert_eq!(refused(input.head(10, 20, soon())), Status::BadRequest);
        }
    }

    #[test]
    fn too_much_is_refused() {
        for piece in [1, 7, 1000] {
            let long_line = b"a".repeat(50);
            assert_eq!(refused(input(&long_line, piece, true).head(10, 40, soon())), Status::UriTooLong);
            let long_fields = b"a\r\n".repeat(30);
            let refusal = refused(input(&long_fields, piece, true).head(10, 40, soon()));
            assert_eq!(refusal, Status::RequestHeaderFieldsTooLarge);
            let long_fields = [&b"a\r\n"[..], &b"b".repeat(60), b"\r\n\r\n"].concat();
            let refusal = refused(input(&long_fields, piece, true).head(10, 40, soon()));
            assert_eq!(refusal, Status::RequestHeaderFieldsTooLarge);
            assert_eq!(refused(input(b"12345678", piece, true).line(4, soon())), Status::BadRequest);
        }
    }

    #[test]
    fn silence_and_the_end_are_told_apart() {
        assert!(matches!(input(b"", 1, true).head(10, 20, soon()), Err(Failure::Closed)));
        assert!(matches!(input(b"", 1, false).head(10, 20, soon()), Err(Failure::Closed)));
        assert_eq!(refused(input(b"GE", 1, false).head(10, 20, soon())), Status::RequestTimeout);
        assert_eq!(refused(input(b"GE", 1, true).head(10, 20, soon())), Status::BadRequest);
    }
}
