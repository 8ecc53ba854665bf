//! A client: a stream that does not wait, and what is still to be sent back.

use std::io::{self, ErrorKind, Read, Write};

/// Most bytes that wait to be sent to one client; it is not read from while there are more.
const MOST: usize = 256 << 10;

/// No longer line is of interest, and none may use up the memory.
const LONGEST: usize = 8;

/// What a client wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// To be served when there is something to do.
    Open,
    /// Nothing more: the connection is over.
    Over,
    /// That the server ends.
    Exit,
}

/// A client. `S` is its stream.
#[derive(Debug)]
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    /// What was read and not yet written.
    waiting: Vec<u8>,
    /// The line that is being received, if it may still be the one that ends the server.
    line: Vec<u8>,
    /// Nothing more will come.
    ended: bool,
    exit: bool,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, waiting: Vec::new(), line: Vec::new(), ended: false, exit: false }
    }

    /// Reads and writes until one of them would have to wait.
    pub(crate) fn advance(&mut self) -> io::Result<State> {
        loop {
            let read = !self.ended && !self.exit && self.waiting.len() < MOST && self.read()?;
            let written = self.write()?;
            if !read && !written {
                break;
            }
        }
        Ok(match self.waiting.is_empty() {
            true if self.exit => State::Exit,
            true if self.ended => State::Over,
            _ => State::Open,
        })
    }

    /// Whether anything was read, be it the end.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let Some(size) = ready(self.stream.read(&mut buffer))? else { return Ok(false) };
        let bytes = buffer.split_at(size).0;
        self.ended = size == 0;
        self.waiting.extend(bytes);
        self.watch(bytes);
        Ok(true)
    }

    /// Whether anything was written.
    fn write(&mut self) -> io::Result<bool> {
        if self.waiting.is_empty() {
            return Ok(false);
        }
        let Some(size) = ready(self.stream.write(&self.waiting))? else { return Ok(false) };
        self.waiting.drain(..size);
        Ok(size > 0)
    }

    /// Looks for the line that ends the server.
    fn watch(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.exit |= self.line.trim_ascii_end() == b"exit";
                self.line.clear();
            } else if self.line.len() < LONGEST {
                self.line.push(byte);
            }
        }
    }
}

/// The result, unless the call would have to wait.
fn ready(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(size) => Ok(Some(size)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        // The call is to be made again, as after anything that has happened.
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, ErrorKind, Read, Write};

    use super::{Client, State};

    /// A stream that gives these pieces and takes so many bytes.
    #[derive(Debug, Default)]
    struct Script {
        pieces: VecDeque<Vec<u8>>,
        room: usize,
        taken: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.pop_front().ok_or(ErrorKind::WouldBlock)?;
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let size = bytes.len().min(self.room);
            self.room -= size;
            self.taken.extend(&bytes[..size]);
            if size == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(size) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn client(pieces: &[&[u8]], room: usize) -> Client<Script> {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        Client::new(Script { pieces, room, taken: Vec::new() })
    }

    #[test]
    fn what_does_not_fit_waits() {
        let mut client = client(&[b"hello ", b"world", b""], 7);
        assert_eq!(client.advance().unwrap(), State::Open);
        assert_eq!(client.stream.taken, b"hello w");
        client.stream.room = 100;
        assert_eq!(client.advance().unwrap(), State::Over);
        assert_eq!(client.stream.taken, b"hello world");
    }

    #[test]
    fn only_a_whole_line_ends_the_server() {
        for (pieces, state) in [
            (&[&b"ex"[..], b"it\r\n"][..], State::Exit),
            (&[b"a\nexit\nb"], State::Exit),
            (&[b"exit"], State::Open),
            (&[b"no exit\nexits\n exit\n"], State::Open),
            (&[b"exit\0\0\0\0\0\n"], State::Open),
        ] {
            assert_eq!(client(pieces, 100).advance().unwrap(), state, "{pieces:?}");
        }
    }

    #[test]
    fn nobody_is_read_from_who_does_not_read() {
        let block = [b'x'; 16 << 10];
        let mut client = client(&[&block[..]; 100], 0);
        assert_eq!(client.advance().unwrap(), State::Open);
        assert_eq!(client.stream.pieces.len(), 100 - 16);
    }
}
