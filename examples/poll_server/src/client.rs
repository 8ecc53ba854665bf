//! A client: a non-blocking stream, and the bytes to be echoed.

use std::io::{self, ErrorKind, Read, Write};

/// Maximum number of bytes queued for a client. While more bytes are queued, the server does not read from
/// the client (back-pressure).
const MAX_QUEUED: usize = 256 << 10;

/// Maximum number of bytes of a line that are kept to recognise `exit`. It bounds the memory for long lines.
const MAX_LINE: usize = 8;

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// The connection is open.
    Open,
    /// The connection has ended.
    Closed,
    /// The client has requested the server to exit.
    Exit,
}

/// A client with a stream of type `S`.
#[derive(Debug)]
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    /// Bytes that have been read and not written yet.
    queued: Vec<u8>,
    /// The current line, up to [`MAX_LINE`] bytes.
    line: Vec<u8>,
    /// True if the client has closed its sending side.
    ended: bool,
    exit: bool,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, queued: Vec::new(), line: Vec::new(), ended: false, exit: false }
    }

    /// Reads and writes until both would block.
    pub(crate) fn advance(&mut self) -> io::Result<ClientState> {
        loop {
            let read = !self.ended && !self.exit && self.queued.len() < MAX_QUEUED && self.read()?;
            let written = self.write()?;
            if !read && !written {
                break;
            }
        }
        Ok(match self.queued.is_empty() {
            true if self.exit => ClientState::Exit,
            true if self.ended => ClientState::Closed,
            _ => ClientState::Open,
        })
    }

    /// Reads. Returns true if there were bytes, or the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let Some(size) = ready(self.stream.read(&mut buffer))? else { return Ok(false) };
        let bytes = buffer.split_at(size).0;
        self.ended = size == 0;
        self.queued.extend(bytes);
        self.search_exit_line(bytes);
        Ok(true)
    }

    /// Writes queued bytes. Returns true if bytes were written.
    fn write(&mut self) -> io::Result<bool> {
        if self.queued.is_empty() {
            return Ok(false);
        }
        let Some(size) = ready(self.stream.write(&self.queued))? else { return Ok(false) };
        self.queued.drain(..size);
        Ok(size > 0)
    }

    /// Searches the bytes for the line `exit`.
    fn search_exit_line(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.exit |= self.line.trim_ascii_end() == b"exit";
                self.line.clear();
            } else if self.line.len() < MAX_LINE {
                self.line.push(byte);
            }
        }
    }
}

/// Returns the result of a call, or `None` if the call would block.
fn ready(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        // An interrupted call is retried on the next event.
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, ErrorKind, Read, Write};

    use super::{Client, ClientState};

    /// A stream whose reads return the given pieces, and whose writes accept `room` bytes in total.
    #[derive(Debug, Default)]
    struct FakeStream {
        pieces: VecDeque<Vec<u8>>,
        room: usize,
        written: Vec<u8>,
    }

    impl Read for FakeStream {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.pop_front().ok_or(ErrorKind::WouldBlock)?;
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for FakeStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let size = bytes.len().min(self.room);
            self.room -= size;
            self.written.extend(&bytes[..size]);
            if size == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(size) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn client(pieces: &[&[u8]], room: usize) -> Client<FakeStream> {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        Client::new(FakeStream { pieces, room, written: Vec::new() })
    }

    #[test]
    fn unsent_bytes_are_queued() {
        let mut client = client(&[b"hello ", b"world", b""], 7);
        assert_eq!(client.advance().unwrap(), ClientState::Open);
        assert_eq!(client.stream.written, b"hello w");
        client.stream.room = 100;
        assert_eq!(client.advance().unwrap(), ClientState::Closed);
        assert_eq!(client.stream.written, b"hello world");
    }

    #[test]
    fn only_a_complete_exit_line_ends_server() {
        for (pieces, state) in [
            (&[&b"ex"[..], b"it\r\n"][..], ClientState::Exit),
            (&[b"a\nexit\nb"], ClientState::Exit),
            (&[b"exit"], ClientState::Open),
            (&[b"no exit\nexits\n exit\n"], ClientState::Open),
            (&[b"exit\0\0\0\0\0\n"], ClientState::Open),
        ] {
            assert_eq!(client(pieces, 100).advance().unwrap(), state, "{pieces:?}");
        }
    }

    #[test]
    fn slow_reader_is_not_read_from() {
        let block = [b'x'; 16 << 10];
        let mut client = client(&[&block[..]; 100], 0);
        assert_eq!(client.advance().unwrap(), ClientState::Open);
        assert_eq!(client.stream.pieces.len(), 100 - 16);
    }
}
