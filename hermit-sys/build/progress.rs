//! Notes to the user about steps that take long.
//!
//! Cargo keeps the output of build scripts to itself until they fail. A note therefore goes where cargo's own
//! messages go: to the standard error of the cargo process, unless cargo runs with `--quiet`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::parent_id;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The flag of open(2), on x86-64.
const O_APPEND: u32 = 0o2000;

/// Time between two lines about a build, on an output where lines cannot be redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

/// Time between two drawings of the line about a build on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Prints a line in the format of cargo's messages. A line that cannot be printed is lost.
pub(crate) fn note(verb: &str, text: &str) {
    if let Some(stderr) = CargoStderr::open() {
        stderr.write(&(message(verb, text) + "\n"));
    }
}

/// Shows, until it is dropped, for how long a build has been running.
#[derive(Debug)]
pub(crate) struct Ticker(Option<(Sender<()>, JoinHandle<()>)>);

impl Ticker {
    /// Begins to measure the time of the build of that name. Shows nothing if cargo is quiet.
    pub(crate) fn start(name: String) -> Self {
        let Some(stderr) = CargoStderr::open() else { return Self(None) };
        let (sender, receiver) = mpsc::channel();
        let begin = Instant::now();
        let (interval, end) = if stderr.is_terminal { (REDRAW_INTERVAL, "") } else { (LINE_INTERVAL, "\n") };
        let thread = thread::spawn(move || {
            while receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                stderr.write(&(still_building(&name, begin.elapsed()) + end));
            }
        });
        Self(Some((sender, thread)))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            // A panic of the thread has been reported, and the build does not depend on the thread.
            let _: thread::Result<()> = thread.join();
        }
    }
}

fn still_building(name: &str, elapsed: Duration) -> String {
    message("Building", &format!("{name}: {} s", elapsed.as_secs()))
}

/// Returns text in the format of cargo's messages.
fn message(verb: &str, text: &str) -> String {
    format!("{verb:>12} {text}")
}

/// Standard error of the cargo process.
#[derive(Debug)]
struct CargoStderr {
    path: String,
    is_terminal: bool,
}

impl CargoStderr {
    /// Finds standard error of the parent process; `None` if cargo is quiet, or if other lines would
    /// overwrite these.
    fn open() -> Option<Self> {
        let cargo = format!("/proc/{}", parent_id());
        let command = fs::read(format!("{cargo}/cmdline")).unwrap_or_default();
        let is_quiet = command.split(|byte| *byte == 0).any(|word| word == b"-q" || word == b"--quiet");
        let path = format!("{cargo}/fd/2");
        let kind = fs::metadata(&path).ok()?.file_type();
        let is_shown = !is_quiet && (!kind.is_file() || appends(&cargo));
        is_shown.then_some(Self { path, is_terminal: kind.is_char_device() })
    }

    /// Writes text. On a terminal, it replaces cargo's progress bar, which cargo draws again.
    fn write(&self, text: &str) {
        let clear = if self.is_terminal { "\r\u{1b}[K" } else { "" };
        let text = format!("{clear}{text}");
        // Text that cannot be shown is not worth an error.
        let _: std::io::Result<()> = OpenOptions::new()
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

/// Returns true if standard error of the process was opened to append (`O_APPEND`). Otherwise its next line
/// would overwrite a note.
fn appends(process: &str) -> bool {
    let info = fs::read_to_string(format!("{process}/fdinfo/2")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_APPEND != 0)
}

#[cfg(test)]
mod tests {
    use super::{message, still_building};
    use std::time::Duration;

    #[test]
    fn messages_are_aligned_as_those_of_cargo() {
        assert_eq!(message("Compiling", "hermit-net"), "   Compiling hermit-net");
        let line = still_building("hermit-kernel", Duration::from_millis(34_900));
        assert_eq!(line, "    Building hermit-kernel: 34 s");
    }
}
