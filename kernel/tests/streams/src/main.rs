//! Writes to standard output and standard error, in the way that its arguments name.
//!
//! | arguments | what it writes |
//! | --- | --- |
//! | `alternate LINES` | numbered lines, each first to standard output, then to standard error |
//! | `together LINES` | numbered lines, to both streams at once, each with one write of a thread of its own |
//! | `blocked output\|error LINES` | numbered lines to one stream and, when that goes on no more, one to the other |
//! | `time BYTES` | so many bytes to each stream, then to standard output the time in ns that each write took |
//!
//! The same source runs on Linux.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Time without progress after which a writer counts as blocked.
const STALLED: Duration = Duration::from_millis(100);

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Output,
    Error,
}

impl Stream {
    fn parse(name: &str) -> Option<Self> {
        [Self::Output, Self::Error].into_iter().find(|stream| stream.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Error => "error",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Output => Self::Error,
            Self::Error => Self::Output,
        }
    }

    /// A line of this stream.
    fn line(self, number: usize) -> String {
        format!("{} {number}\n", self.name())
    }

    fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Output => {
                let mut stream = io::stdout().lock();
                stream.write_all(bytes)?;
                stream.flush()
            }
            Self::Error => io::stderr().lock().write_all(bytes),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match (arguments.as_slice(), arguments.last().and_then(|count| count.parse().ok())) {
        (["alternate", _], Some(lines)) => alternate(lines),
        (["together", _], Some(lines)) => together(lines),
        (["blocked", stream, _], Some(lines)) => match Stream::parse(stream) {
            Some(stream) => blocked(stream, lines),
            None => return usage(),
        },
        (["time", _], Some(size)) => time(size),
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: streams alternate LINES | together LINES | blocked output|error LINES | time BYTES");
    ExitCode::from(USAGE_ERROR)
}

fn alternate(lines: usize) -> io::Result<()> {
    (0..lines).try_for_each(|number| {
        Stream::Output.write(Stream::Output.line(number).as_bytes())?;
        Stream::Error.write(Stream::Error.line(number).as_bytes())
    })
}

fn together(lines: usize) -> io::Result<()> {
    let text = |stream: Stream| (0..lines).map(|number| stream.line(number)).collect::<String>();
    thread::scope(|scope| {
        let error = scope.spawn(|| Stream::Error.write(text(Stream::Error).as_bytes()));
        let output = Stream::Output.write(text(Stream::Output).as_bytes());
        output.and(error.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked"))))
    })
}

fn blocked(stream: Stream, lines: usize) -> io::Result<()> {
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..lines).try_for_each(|number| {
                stream.write(stream.line(number).as_bytes())?;
                written.store(number + 1, Ordering::Relaxed);
                Ok(())
            })
        });
        let mut before = 0;
        loop {
            thread::sleep(STALLED);
            let now = written.load(Ordering::Relaxed);
            if writer.is_finished() || (now > 0 && now == before) {
                break;
            }
            before = now;
        }
        let other = stream.other().write(stream.other().line(0).as_bytes());
        other.and(writer.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked"))))
    })
}

fn time(size: usize) -> io::Result<()> {
    let bytes = vec![b'.'; size];
    let measure = |stream: Stream| {
        let start = Instant::now();
        stream.write(&bytes).map(|()| (stream, start.elapsed().as_nanos()))
    };
    // The first write to a stream initialises its device.
    Stream::Output.write(b"\n")?;
    Stream::Error.write(b"\n")?;
    let times = [measure(Stream::Output)?, measure(Stream::Error)?];
    times.iter().for_each(|(stream, time)| println!("\n{}: {time} ns", stream.name()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn streams_are_named() {
        assert_eq!(Stream::parse("output"), Some(Stream::Output));
        assert_eq!(Stream::parse("error").map(Stream::other), Some(Stream::Output));
        assert_eq!(Stream::parse(""), None);
        assert_eq!(Stream::Error.line(7), "error 7\n");
    }
}
