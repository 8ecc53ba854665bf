//! Messages to the user. They go to standard error, or to the file of `--log-file`. The file is useful
//! because the guest also writes to standard error, and could print a line that looks like a message of
//! uhyve.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hermit_options::open::{Opener, beneath};
use log::{LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::{Errno, write};

/// Time limit for writing a message. The reader of standard error may have stalled, and must not delay the
/// end of the guest.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes that a pipe takes without blocking once it is writable (`PIPE_BUF`).
const CHUNK: usize = 4096;

/// File of `--log-file`. It is never closed.
static FILE: OnceLock<OwnedFd> = OnceLock::new();

#[derive(Debug)]
struct Messages;

impl Log for Messages {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        say(format_args!("{}: {}", record.level().as_str().to_lowercase(), record.args()));
    }

    fn flush(&self) {}
}

/// Writes all further messages to the end of a file. Call it once, before the process is confined.
///
/// # Errors
///
/// The file cannot be opened or made, or is not a regular file.
pub(crate) fn write_to(opener: &Opener, path: &Path) -> io::Result<()> {
    let place = opener.place_of_file(path)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = beneath(&place.folder, place.name.as_bytes(), flags, Mode::from(0o640))?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    // Fails if there is already a file.
    let _: Result<(), OwnedFd> = FILE.set(file);
    Ok(())
}

/// Returns the descriptor to which messages are written. Async-signal-safe.
pub(crate) fn descriptor() -> BorrowedFd<'static> {
    // The descriptor of standard error is never closed, so it can be borrowed.
    FILE.get().map_or_else(rustix::stdio::stderr, AsFd::as_fd)
}

/// Prints a message. Errors are ignored, because a reader that has closed standard error must not end the
/// guest. The part of a message that the reader does not take within [`TIMEOUT`] is dropped.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let line = format!("uhyve: {message}\n");
    let _: rustix::io::Result<()> = write_within(descriptor(), line.as_bytes(), TIMEOUT);
}

/// Writes all of `bytes`, or as many as the stream takes within `timeout`. Takes no lock, because another
/// thread might hold it.
fn write_within(stream: impl AsFd, mut bytes: &[u8], timeout: Duration) -> rustix::io::Result<()> {
    let start = Instant::now();
    while !bytes.is_empty() {
        let left = timeout.saturating_sub(start.elapsed());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        let result = match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => write(&stream, bytes.get(..CHUNK).unwrap_or(bytes)),
            Err(error) => Err(error),
        };
        match result {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints a message that is not an error, unless the user wants only errors.
pub(crate) fn note(message: fmt::Arguments<'_>) {
    if log::max_level() > LevelFilter::Error {
        say(message);
    }
}

/// Installs the logger. It prints warnings and errors by default, nothing if `quiet`, and all messages down
/// to debug level if `verbose`.
pub(crate) fn init(verbose: bool, quiet: bool) {
    log::set_max_level(match (verbose, quiet) {
        (true, _) => LevelFilter::Debug,
        (false, true) => LevelFilter::Error,
        (false, false) => LevelFilter::Warn,
    });
    // Fails if a program that uses this crate has installed its own logger.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Messages);
}

#[cfg(test)]
mod tests {
    use super::write_within;
    use rustix::io::Errno;
    use std::io::{Read, pipe};
    use std::time::Duration;

    #[test]
    fn message_is_written_whole_or_dropped_after_the_timeout() {
        let (mut reader, writer) = pipe().unwrap();
        let message = [7; 5000];
        write_within(&writer, &message, Duration::from_secs(60)).unwrap();
        let mut read = [0; 5000];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(read, message);
        // More than a pipe takes.
        let stalled = write_within(&writer, &[0; 1 << 20], Duration::from_millis(20));
        assert_eq!(stalled, Err(Errno::TIMEDOUT));
        drop(reader);
        assert_eq!(write_within(&writer, &message, Duration::from_secs(60)), Err(Errno::PIPE));
    }
}
