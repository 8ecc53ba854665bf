//! Messages to the user, on standard error.

use std::fmt;
use std::io::stderr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// Time limit of a message: the reader of standard error may have stalled, which must not keep the guest alive.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Number of bytes that a pipe takes without blocking once it is writable (`PIPE_BUF`).
const CHUNK: usize = 4096;

#[derive(Debug)]
struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        say(format_args!("{}: {}", record.level().as_str().to_lowercase(), record.args()));
    }

    fn flush(&self) {}
}

/// Prints a message. Errors are ignored: a reader that has closed standard error must not end the guest. What standard
/// error does not take within [`TIMEOUT`] is dropped.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let line = format!("uhyve: {message}\n");
    let _: rustix::io::Result<()> = write_within(stderr(), line.as_bytes(), TIMEOUT);
}

/// Writes all of `bytes`, unless that takes longer than `timeout`. Takes no lock, which another thread might hold.
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

/// Prints a message that is no error, unless the user wants errors only.
pub(crate) fn note(message: fmt::Arguments<'_>) {
    if log::max_level() > LevelFilter::Error {
        say(message);
    }
}

/// Installs the logger: warnings; if `quiet`, none; if `verbose`, all messages down to debug level.
pub(crate) fn init(verbose: bool, quiet: bool) {
    log::set_max_level(match (verbose, quiet) {
        (true, _) => LevelFilter::Debug,
        (false, true) => LevelFilter::Error,
        (false, false) => LevelFilter::Warn,
    });
    // It fails if a program that uses this crate has installed its own logger.
    let _: Result<(), log::SetLoggerError> = log::set_logger(&Stderr);
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
