//! What a client says to the server at the beginning of a connection: what it wants, and a number.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long connecting and every single call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a message.
pub(crate) const MAX_MESSAGE: u32 = 16 << 20;

/// The length of a wish on the wire.
const LENGTH: usize = 9;

/// What a client wants of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That it reads up to the end, and says how many bytes that were.
    Sink,
    /// That it sends messages of so many bytes for so many milliseconds.
    Source { message: u32, milliseconds: u32 },
    /// The same, with each message sent at once.
    SourceAtOnce { message: u32, milliseconds: u32 },
    /// That it sends back every message of so many bytes.
    Echo { message: u32 },
    /// That it ends.
    Stop,
}

impl Wish {
    pub(crate) fn encode(self) -> [u8; LENGTH] {
        let (kind, message, milliseconds) = match self {
            Self::Sink => (0, 0, 0),
            Self::Source { message, milliseconds } => (1, message, milliseconds),
            Self::SourceAtOnce { message, milliseconds } => (2, message, milliseconds),
            Self::Echo { message } => (3, message, 0),
            Self::Stop => (4, 0, 0),
        };
        let mut bytes = [kind; LENGTH];
        let (_, numbers) = bytes.split_at_mut(1);
        let (first, second) = numbers.split_at_mut(4);
        first.copy_from_slice(&message.to_le_bytes());
        second.copy_from_slice(&milliseconds.to_le_bytes());
        bytes
    }

    /// What the bytes stand for.
    pub(crate) fn decode([kind, a, b, c, d, e, f, g, h]: [u8; LENGTH]) -> Option<Self> {
        let (message, milliseconds) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let fits = (1..=MAX_MESSAGE).contains(&message);
        match kind {
            0 => Some(Self::Sink),
            1 if fits => Some(Self::Source { message, milliseconds }),
            2 if fits => Some(Self::SourceAtOnce { message, milliseconds }),
            3 if fits => Some(Self::Echo { message }),
            4 => Some(Self::Stop),
            _ => None,
        }
    }

    /// Reads one.
    pub(crate) fn receive(mut from: impl Read) -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        from.read_exact(&mut bytes)?;
        Self::decode(bytes).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

/// A connection to the server, at the first of its addresses that answers.
pub(crate) fn connect(server: &str) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other(format!("{server} has no address")));
    for address in server.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, PATIENCE);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Ends the server.
pub(crate) fn stop(server: &str) -> io::Result<()> {
    let mut stream = connect(server)?;
    stream.write_all(&Wish::Stop.encode())?;
    // It ends this connection first.
    match stream.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(io::Error::other("the server does not stop")),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE, Wish};

    #[test]
    fn wishes_are_understood() {
        let (message, milliseconds) = (0x0102, 0x0304_0506);
        for wish in [
            Wish::Sink,
            Wish::Source { message, milliseconds },
            Wish::SourceAtOnce { message, milliseconds },
            Wish::Echo { message },
            Wish::Stop,
        ] {
            assert_eq!(Wish::decode(wish.encode()), Some(wish));
        }
    }

    #[test]
    fn nonsense_is_no_wish() {
        for wish in [Wish::Echo { message: 0 }, Wish::Echo { message: MAX_MESSAGE + 1 }] {
            assert_eq!(Wish::decode(wish.encode()), None);
        }
        assert_eq!(Wish::decode([9; 9]), None);
    }
}
