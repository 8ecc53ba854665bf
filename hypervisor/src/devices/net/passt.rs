//! passt(1): a program that makes the guest's connections with sockets of the host's, so that neither root nor a tap is needed.
//!
//! It is started before uhyve is confined, with one end of a pair of sockets. It ends when the other end is closed, and so
//! when uhyve ends, however that happens.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use vm_memory::VolatileSlice;

use super::backend::{Backend, Lost, Received, Sent};
use super::header::{Header, Offloads};
use super::stream::{Incoming, Outgoing};
use super::vectored::{gather, scatter};

/// The program.
const PROGRAM: &str = "passt";

/// Most bytes of a packet: as many as passt takes. Others on the way get smaller ones, because connections end at passt.
pub const MAX_MTU: u16 = 65_520;

/// How many characters of what passt says are worth repeating.
const MAX_MESSAGE: usize = 500;

/// Why there is no connection by passt.
#[derive(Debug, thiserror::Error)]
pub enum PasstError {
    /// The program is not there.
    #[error(
        "-p and --net passt need the program passt, which is not installed.\n  \
         Debian, Ubuntu: sudo apt install passt\n  Fedora: sudo dnf install passt\n\
         Or use a tap: docs/network.md"
    )]
    NotInstalled,
    /// It cannot be started.
    #[error("cannot start passt: {0}")]
    Start(#[from] io::Error),
    /// It has given up, and said why.
    #[error("passt cannot connect the guest: {0}")]
    Failed(String),
}

/// A passt that is starting.
#[derive(Debug)]
pub struct Starting(Child);

impl Starting {
    /// Waits until it is ready: then it goes on in the background.
    ///
    /// # Errors
    ///
    /// It has given up.
    pub fn finish(self) -> Result<(), PasstError> {
        let output = self.0.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = reason(&String::from_utf8_lossy(&output.stderr));
        let reason = if said.is_empty() { format!("it ended with {}", output.status) } else { said };
        Err(PasstError::Failed(reason))
    }
}

/// What matters of what it said.
fn reason(text: &str) -> String {
    let is_noise =
        |line: &&str| line.is_empty() || line.starts_with("Failed to send ") || line.contains("run as root");
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !is_noise(line)).collect();
    lines.join("; ").chars().take(MAX_MESSAGE).collect()
}

/// A connection with a passt.
#[derive(Debug)]
pub struct Passt {
    stream: File,
    /// The same, to wait for something else.
    output: File,
    incoming: Incoming,
    outgoing: Outgoing,
}

impl Passt {
    /// Starts passt with these arguments besides those that connect it.
    ///
    /// # Errors
    ///
    /// See [`PasstError`].
    pub fn start(arguments: &[String]) -> Result<(Self, Starting), PasstError> {
        let (ours, theirs) = UnixStream::pair()?;
        // Programs that are started inherit this one. Nothing else is started before it is closed here.
        fcntl_setfd(&theirs, FdFlags::empty()).map_err(io::Error::from)?;
        let child = Command::new(PROGRAM)
            .args(["--quiet", "--fd", &theirs.as_raw_fd().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        drop(theirs);
        let child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => PasstError::NotInstalled,
            _ => PasstError::Start(error),
        })?;
        Ok((Self::new(ours)?, Starting(child)))
    }

    /// Talks to a passt at the other end of this stream.
    ///
    /// # Errors
    ///
    /// The host has no more descriptors.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = File::from(OwnedFd::from(stream));
        let output = stream.try_clone()?;
        Ok(Self { stream, output, incoming: Incoming::default(), outgoing: Outgoing::default() })
    }
}

/// Nothing if it is merely not the time for it.
fn later<T>(result: io::Result<T>) -> Result<Option<T>, Lost> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            Err(Lost(io::Error::new(error.kind(), "passt has ended")))
        }
        Err(error) => Err(Lost(io::Error::new(error.kind(), format!("passt: {error}")))),
    }
}

impl Backend for Passt {
    fn has_offloads(&self) -> bool {
        false
    }

    fn set_offloads(&mut self, _offloads: Offloads) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<Received>, Lost> {
        let mut stream = &self.stream;
        let frame = later(self.incoming.next(|buffer| stream.read(buffer)))?;
        Ok(frame.map(|frame| {
            scatter(frame, room);
            Received { header: Header::default(), length: frame.len() }
        }))
    }

    fn send(&mut self, _header: Header, frame: &[VolatileSlice<'_>]) -> Result<Sent, Lost> {
        if !self.outgoing.has_room() && self.flush()? == Sent::Later && !self.outgoing.has_room() {
            return Ok(Sent::Later);
        }
        let length = frame.iter().map(VolatileSlice::len).sum::<usize>();
        // The device lets no longer ones through than a stream has.
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.outgoing.push(length, |buffer| gather(frame, buffer));
        Ok(Sent::Taken)
    }

    fn flush(&mut self) -> Result<Sent, Lost> {
        let mut stream = &self.stream;
        let flushed = later(self.outgoing.flush(|bytes| stream.write(bytes)))?;
        Ok(flushed.map_or(Sent::Later, |()| Sent::Taken))
    }

    fn input(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    fn output(&self) -> RawFd {
        self.output.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Passt, PasstError, reason};
    use crate::devices::net::backend::{Backend, Sent};
    use crate::devices::net::header::Header;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use vm_memory::VolatileSlice;

    fn pair() -> (Passt, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Passt::new(ours).unwrap(), theirs)
    }

    fn frame(passt: &mut Passt) -> Option<Vec<u8>> {
        let mut room = vec![0; 70_000];
        let received = passt.receive(&[VolatileSlice::from(&mut *room)]).unwrap()?;
        room.truncate(received.length);
        Some(room)
    }

    fn send(passt: &mut Passt, length: usize) -> Sent {
        passt.send(Header::default(), &[VolatileSlice::from(&mut *vec![3; length])]).unwrap()
    }

    #[test]
    fn what_passt_says_is_repeated_without_noise() {
        let text = "Failed to send 47 bytes to syslog\nDon't run as root. Changing to nobody...\n\
                    Failed to send 62 bytes to syslog\nFailed to bind any port for '-t 80:80', exiting\n";
        assert_eq!(reason(text), "Failed to bind any port for '-t 80:80', exiting");
        assert_eq!(reason(&"x".repeat(10_000)).len(), 500);
        assert_eq!(reason(""), "");
    }

    #[test]
    fn an_error_says_what_to_install() {
        let message = PasstError::NotInstalled.to_string();
        assert!(message.contains("apt install passt") && message.contains("docs/network.md"));
    }

    #[test]
    fn frames_go_both_ways() {
        let (mut passt, mut other) = pair();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[0, 0, 0, 20]).unwrap();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[7; 20]).unwrap();
        other.write_all(&[0, 0, 0, 14, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]).unwrap();
        assert_eq!(frame(&mut passt), Some(vec![7; 20]));
        assert_eq!(frame(&mut passt), Some(vec![8; 14]));
        assert_eq!(frame(&mut passt), None);
        assert_eq!(send(&mut passt, 14), Sent::Taken);
        assert_eq!(send(&mut passt, 15), Sent::Taken);
        assert_eq!(passt.flush().unwrap(), Sent::Taken);
        let mut bytes = [0; 4 + 14 + 4 + 15];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!((bytes[3], bytes[4], bytes[21], bytes[36]), (14, 3, 15, 3));
    }

    #[test]
    fn a_passt_that_does_not_read_is_waited_for() {
        let (mut passt, mut other) = pair();
        let mut count = 0;
        while send(&mut passt, 60_000) == Sent::Taken {
            count += 1;
            assert!(count < 100, "there is always room");
        }
        assert_eq!(passt.flush().unwrap(), Sent::Later);
        let mut bytes = vec![0; 60_004];
        for number in 0..count {
            // Whole frames, however the receiver has taken them.
            let reader =
                std::thread::spawn(move || other.read_exact(&mut bytes).map(|()| (other, bytes)).unwrap());
            while !reader.is_finished() {
                passt.flush().unwrap();
            }
            (other, bytes) = reader.join().unwrap();
            assert_eq!((&bytes[..5], bytes[60_003]), (&[0, 0, 0xea, 0x60, 3][..], 3), "{number}");
        }
        assert_eq!(send(&mut passt, 60_000), Sent::Taken);
    }

    #[test]
    fn the_end_of_passt_is_noticed_in_both_directions() {
        let (mut passt, other) = pair();
        drop(other);
        let error = passt.receive(&[]).unwrap_err();
        assert_eq!(error.to_string(), "passt has ended");
        send(&mut passt, 100);
        assert_eq!(passt.flush().unwrap_err().to_string(), "passt has ended");
        let (mut passt, mut other) = pair();
        other.write_all(&[0xff; 8]).unwrap();
        let error = passt.receive(&[]).unwrap_err();
        assert!(error.to_string().contains("odd length"), "{error}");
    }
}
