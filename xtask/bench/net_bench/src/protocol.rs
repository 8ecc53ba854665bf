//! The protocol: a client sends one request at the start of each connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Timeout of connecting, and of each read and write.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum message size in bytes.
pub(crate) const MAX_MESSAGE: u32 = 16 << 20;

/// Size in bytes of an encoded request.
const REQUEST_SIZE: usize = 9;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestRequest {
    /// Read up to the end of the stream, then send the number of received bytes.
    Sink,
    /// Send messages of `message` bytes for `milliseconds`.
    Source { message: u32, milliseconds: u32 },
    /// [`Self::Source`] with `TCP_NODELAY`.
    SourceNoDelay { message: u32, milliseconds: u32 },
    /// Send back each message of `message` bytes.
    Echo { message: u32 },
    /// Stop the server.
    Stop,
    /// Send `bytes` bytes.
    Send { bytes: u32 },
    /// Read up to the end of the stream, but for at most `milliseconds`. Send the number of bytes received so
    /// far after each interval and at the end.
    CountingSink { milliseconds: u32 },
}

impl TestRequest {
    pub(crate) fn encode(self) -> [u8; REQUEST_SIZE] {
        let (kind, message, milliseconds) = match self {
            Self::Sink => (0, 0, 0),
            Self::Source { message, milliseconds } => (1, message, milliseconds),
            Self::SourceNoDelay { message, milliseconds } => (2, message, milliseconds),
            Self::Echo { message } => (3, message, 0),
            Self::Stop => (4, 0, 0),
            Self::Send { bytes } => (5, bytes, 0),
            Self::CountingSink { milliseconds } => (6, 0, milliseconds),
        };
        let mut bytes = [kind; REQUEST_SIZE];
        let (_, numbers) = bytes.split_at_mut(1);
        let (first, second) = numbers.split_at_mut(4);
        first.copy_from_slice(&message.to_le_bytes());
        second.copy_from_slice(&milliseconds.to_le_bytes());
        bytes
    }

    /// Decodes a request. Returns `None` if the request is invalid.
    pub(crate) fn decode([kind, a, b, c, d, e, f, g, h]: [u8; REQUEST_SIZE]) -> Option<Self> {
        let (message, milliseconds) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let fits = (1..=MAX_MESSAGE).contains(&message);
        match kind {
            0 => Some(Self::Sink),
            1 if fits => Some(Self::Source { message, milliseconds }),
            2 if fits => Some(Self::SourceNoDelay { message, milliseconds }),
            3 if fits => Some(Self::Echo { message }),
            4 => Some(Self::Stop),
            5 => Some(Self::Send { bytes: message }),
            6 => Some(Self::CountingSink { milliseconds }),
            _ => None,
        }
    }

    /// Reads a request.
    pub(crate) fn receive(mut from: impl Read) -> io::Result<Self> {
        let mut bytes = [0; REQUEST_SIZE];
        from.read_exact(&mut bytes)?;
        Self::decode(bytes).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

/// Connects to the first of the server's addresses that accepts the connection.
pub(crate) fn connect(server: &str) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other(format!("{server} has no address")));
    for address in server.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, IO_TIMEOUT);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    Ok(stream)
}

/// Stops the server.
pub(crate) fn stop(server: &str) -> io::Result<()> {
    let mut stream = connect(server)?;
    stream.write_all(&TestRequest::Stop.encode())?;
    // The server answers by closing this connection.
    match stream.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(io::Error::other("the server does not stop")),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE, TestRequest};

    #[test]
    fn requests_survive_encoding() {
        let (message, milliseconds) = (0x0102, 0x0304_0506);
        for request in [
            TestRequest::Sink,
            TestRequest::Source { message, milliseconds },
            TestRequest::SourceNoDelay { message, milliseconds },
            TestRequest::Echo { message },
            TestRequest::Stop,
            TestRequest::Send { bytes: u32::MAX },
            TestRequest::CountingSink { milliseconds },
        ] {
            assert_eq!(TestRequest::decode(request.encode()), Some(request));
        }
    }

    #[test]
    fn invalid_requests_are_rejected() {
        for request in [TestRequest::Echo { message: 0 }, TestRequest::Echo { message: MAX_MESSAGE + 1 }] {
            assert_eq!(TestRequest::decode(request.encode()), None);
        }
        assert_eq!(TestRequest::decode([9; 9]), None);
    }
}
