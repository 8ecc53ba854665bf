//! The passt backend: passt(1) maps the guest's connections to sockets of the host, which takes neither root nor a TAP
//! interface.
//!
//! uhyve starts passt before it confines itself, and passes it one end of a socket pair. passt exits when the other end
//! is closed, and so whenever uhyve exits.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use hermit_options::passt;
use vm_memory::VolatileSlice;

use super::iovec::{gather, scatter};
use super::stream::{FrameReader, FrameWriter};
use super::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::header::{Offloads, VnetHeader};

/// Maximum number of characters of passt's messages in an error.
const MAX_MESSAGE: usize = 500;

/// Reason for which passt cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PasstError {
    /// The executable is not installed.
    #[error(
        "-p and --net passt need the program passt, which is not installed.\n  \
         Debian, Ubuntu: sudo apt install passt\n  Fedora: sudo dnf install passt\n\
         Or use a tap: docs/network.md"
    )]
    NotInstalled,
    /// The process cannot be started.
    #[error("cannot start passt: {0}")]
    Start(#[from] io::Error),
    /// passt has exited with an error.
    #[error("passt cannot connect the guest: {0}")]
    Failed(String),
}

/// A passt process during its initialisation.
#[derive(Debug)]
pub struct PasstStartup(Child);

impl PasstStartup {
    /// Waits for the end of passt's initialisation, after which it runs in the background.
    ///
    /// # Errors
    ///
    /// passt has exited with an error.
    pub fn finish(self) -> Result<(), PasstError> {
        let output = self.0.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let messages = relevant_messages(&String::from_utf8_lossy(&output.stderr));
        let reason = if messages.is_empty() { format!("it ended with {}", output.status) } else { messages };
        Err(PasstError::Failed(reason))
    }
}

/// The messages of passt that explain its failure.
fn relevant_messages(stderr: &str) -> String {
    let is_noise =
        |line: &&str| line.is_empty() || line.starts_with("Failed to send ") || line.contains("run as root");
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !is_noise(line)).collect();
    lines.join("; ").chars().take(MAX_MESSAGE).collect()
}

/// A connection to a passt process.
#[derive(Debug)]
pub struct Passt {
    stream: File,
    /// A duplicate of `stream`, so that epoll(7) can watch for input and for output separately.
    output: File,
    reader: FrameReader,
    writer: FrameWriter,
}

impl Passt {
    /// Starts passt with these arguments, and with those that connect it to this process.
    ///
    /// # Errors
    ///
    /// See [`PasstError`].
    pub fn start(arguments: &[String]) -> Result<(Self, PasstStartup), PasstError> {
        let (ours, theirs) = UnixStream::pair()?;
        // passt's end is closed below, and no other child process is started before that.
        let child =
            passt::command(&theirs)?.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        drop(theirs);
        let child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => PasstError::NotInstalled,
            _ => PasstError::Start(error),
        })?;
        Ok((Self::new(ours)?, PasstStartup(child)))
    }

    /// Backend for a passt process at the other end of `stream`.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = File::from(OwnedFd::from(stream));
        let output = stream.try_clone()?;
        Ok(Self { stream, output, reader: FrameReader::default(), writer: FrameWriter::default() })
    }
}

/// Turns `EAGAIN` and `EINTR` into `None`, and other errors into [`Disconnected`].
fn non_blocking<T>(result: io::Result<T>) -> Result<Option<T>, Disconnected> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            Err(Disconnected(io::Error::new(error.kind(), "passt has ended")))
        }
        Err(error) => Err(Disconnected(io::Error::new(error.kind(), format!("passt: {error}")))),
    }
}

impl Backend for Passt {
    fn has_offloads(&self) -> bool {
        false
    }

    fn set_offloads(&mut self, _offloads: Offloads) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        let mut stream = &self.stream;
        let frame = non_blocking(self.reader.next(|buffer| stream.read(buffer)))?;
        Ok(frame.map(|frame| {
            scatter(frame, buffers);
            ReceivedFrame { header: VnetHeader::default(), length: frame.len() }
        }))
    }

    fn send(&mut self, _header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        if !self.writer.has_capacity() && self.flush()? == TxStatus::WouldBlock && !self.writer.has_capacity()
        {
            return Ok(TxStatus::WouldBlock);
        }
        let length = frame.iter().map(VolatileSlice::len).sum::<usize>();
        // Cannot fail: the device passes on no frame above MAX_FRAME.
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.writer.push(length, |buffer| gather(frame, buffer));
        Ok(TxStatus::Accepted)
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        let mut stream = &self.stream;
        let flushed = non_blocking(self.writer.flush(|bytes| stream.write(bytes)))?;
        Ok(flushed.map_or(TxStatus::WouldBlock, |()| TxStatus::Accepted))
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
    use super::{Passt, PasstError, relevant_messages};
    use crate::devices::net::backend::{Backend, TxStatus};
    use crate::devices::net::header::VnetHeader;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use vm_memory::VolatileSlice;

    fn pair() -> (Passt, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Passt::new(ours).unwrap(), theirs)
    }

    fn frame(passt: &mut Passt) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 70_000];
        let received = passt.receive(&[VolatileSlice::from(&mut *buffer)]).unwrap()?;
        buffer.truncate(received.length);
        Some(buffer)
    }

    fn send(passt: &mut Passt, length: usize) -> TxStatus {
        passt.send(VnetHeader::default(), &[VolatileSlice::from(&mut *vec![3; length])]).unwrap()
    }

    #[test]
    fn relevant_messages_omits_noise() {
        let text = "Failed to send 47 bytes to syslog\nDon't run as root. Changing user...\n\
                    Failed to send 62 bytes to syslog\nFailed to bind any port for '-t 80:80', exiting\n";
        assert_eq!(relevant_messages(text), "Failed to bind any port for '-t 80:80', exiting");
        assert_eq!(relevant_messages(&"x".repeat(10_000)).len(), 500);
        assert_eq!(relevant_messages(""), "");
    }

    #[test]
    fn not_installed_error_names_the_package() {
        let message = PasstError::NotInstalled.to_string();
        assert!(message.contains("apt install passt") && message.contains("docs/network.md"));
    }

    #[test]
    fn frames_pass_in_both_directions() {
        let (mut passt, mut other) = pair();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[0, 0, 0, 20]).unwrap();
        assert_eq!(frame(&mut passt), None);
        other.write_all(&[7; 20]).unwrap();
        other.write_all(&[0, 0, 0, 14, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]).unwrap();
        assert_eq!(frame(&mut passt), Some(vec![7; 20]));
        assert_eq!(frame(&mut passt), Some(vec![8; 14]));
        assert_eq!(frame(&mut passt), None);
        assert_eq!(send(&mut passt, 14), TxStatus::Accepted);
        assert_eq!(send(&mut passt, 15), TxStatus::Accepted);
        assert_eq!(passt.flush().unwrap(), TxStatus::Accepted);
        let mut bytes = [0; 4 + 14 + 4 + 15];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!((bytes[3], bytes[4], bytes[21], bytes[36]), (14, 3, 15, 3));
    }

    #[test]
    fn full_stream_blocks_and_resumes_without_loss() {
        let (mut passt, mut other) = pair();
        let mut count = 0;
        while send(&mut passt, 60_000) == TxStatus::Accepted {
            count += 1;
            assert!(count < 100, "the stream never blocks");
        }
        assert_eq!(passt.flush().unwrap(), TxStatus::WouldBlock);
        let mut bytes = vec![0; 60_004];
        for number in 0..count {
            // Frames arrive whole, whatever the boundaries of the writes.
            let reader =
                std::thread::spawn(move || other.read_exact(&mut bytes).map(|()| (other, bytes)).unwrap());
            while !reader.is_finished() {
                passt.flush().unwrap();
            }
            (other, bytes) = reader.join().unwrap();
            assert_eq!((&bytes[..5], bytes[60_003]), (&[0, 0, 0xea, 0x60, 3][..], 3), "{number}");
        }
        assert_eq!(send(&mut passt, 60_000), TxStatus::Accepted);
    }

    #[test]
    fn exit_of_passt_disconnects_both_directions() {
        let (mut passt, other) = pair();
        drop(other);
        let error = passt.receive(&[]).unwrap_err();
        assert_eq!(error.to_string(), "passt has ended");
        send(&mut passt, 100);
        assert_eq!(passt.flush().unwrap_err().to_string(), "passt has ended");
        let (mut passt, mut other) = pair();
        other.write_all(&[0xff; 8]).unwrap();
        let error = passt.receive(&[]).unwrap_err();
        assert!(error.to_string().contains("invalid length"), "{error}");
    }
}
