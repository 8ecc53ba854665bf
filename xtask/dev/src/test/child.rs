//! A child process that runs a guest: its input, its time limit, and its output.
//!
//! A guest that hangs must not make the test hang, so each process is killed after a time limit. Two threads
//! read standard output and standard error continuously, because a full pipe would stop the guest. So tests
//! can search the output while the process runs ([`ChildProcess::has_printed`]), send more input, and wait
//! for the end ([`ChildProcess::end`]). The result is an [`Outcome`], which also has the time at which each
//! line arrived.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read, Write};
use std::iter;
use std::mem;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::process;

/// Returns a command that runs another program, which starts `command`. `words` are that program and its
/// first arguments; the command line of `command` follows them.
pub(super) fn started_by(command: &Command, words: &[&str]) -> Command {
    let mut starter = Command::new(words.first().copied().unwrap_or("env"));
    starter.args(words.iter().skip(1)).arg(command.get_program()).args(command.get_args());
    starter
}

/// Interval at which a child process is polled.
const POLL: Duration = Duration::from_millis(1);

/// Standard input of the process.
#[derive(Debug)]
pub(super) enum ChildInput {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and later those of [`ChildProcess::send`]. There is no end of file until
    /// [`ChildProcess::close_input`].
    Open(Vec<u8>),
    /// A file.
    File(File),
    /// /dev/null.
    Nothing,
}

/// Exit code and output of a process that has ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The exit code; `None` if a signal ended the process.
    pub(super) code: Option<i32>,
    /// Standard output.
    pub(super) output: Vec<u8>,
    /// Standard error.
    pub(super) errors: Vec<u8>,
    /// Times of the reads of standard output, each with the number of bytes that had arrived.
    arrivals: Vec<(Instant, usize)>,
}

impl Outcome {
    /// Standard error.
    pub(super) fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.errors).into_owned()
    }

    /// Returns standard output followed by standard error.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&[self.output.as_slice(), &self.errors].concat()).into_owned()
    }

    /// Returns the complete lines of standard output, each with the time at which it arrived.
    pub(super) fn lines(&self) -> impl Iterator<Item = (Instant, String)> {
        let mut end = 0;
        self.output.split_inclusive(|&byte| byte == b'\n').map_while(move |line| {
            end += line.len();
            let (moment, _) = self.arrivals.iter().find(|(_, length)| *length >= end)?;
            Some((*moment, String::from_utf8_lossy(line).trim_end().to_owned()))
        })
    }

    /// Checks the exit code, and that standard output or standard error contains each text.
    pub(super) fn check(&self, code: i32, texts: &[&str]) -> Result<()> {
        let (text, mut wrong) = (self.text(), String::new());
        if self.code != Some(code) {
            writeln!(wrong, "it ended with {:?} instead of {code}", self.code)?;
        }
        for expected in texts.iter().filter(|expected| !text.contains(**expected)) {
            writeln!(wrong, "it did not print {expected:?}")?;
        }
        ensure!(wrong.is_empty(), "{wrong}{self}");
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (output, errors) = (String::from_utf8_lossy(&self.output), String::from_utf8_lossy(&self.errors));
        out.write_str(&streams(&output, &errors))
    }
}

fn streams(output: &str, errors: &str) -> String {
    format!("--- standard output:\n{output}\n--- standard error:\n{errors}\n---")
}

/// A running process, which is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Sends bytes to the thread that writes an open input. Dropping the sender closes the input.
    open: Option<Sender<Vec<u8>>>,
    output: Reader,
    errors: Reader,
    start: Instant,
    limit: Duration,
}

impl ChildProcess {
    /// Starts a process, which is killed after the time limit.
    pub(super) fn start(mut command: Command, input: ChildInput, limit: Duration) -> Result<Self> {
        let (stdin, bytes, stays_open) = match input {
            ChildInput::Bytes(bytes) => (Stdio::piped(), bytes, false),
            ChildInput::Open(bytes) => (Stdio::piped(), bytes, true),
            ChildInput::File(file) => (file.into(), Vec::new(), false),
            ChildInput::Nothing => (Stdio::null(), Vec::new(), false),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", process::display(&command)))?;
        let output = Reader::new(child.stdout.take().context("there is no output")?);
        let errors = Reader::new(child.stderr.take().context("there is no output for errors")?);
        let (sender, later) = mpsc::channel::<Vec<u8>>();
        if let Some(mut pipe) = child.stdin.take() {
            let pieces = iter::once(bytes).chain(later);
            // The loop ends when the sender is dropped. Errors are ignored, because writes fail after the
            // guest has ended.
            thread::spawn(move || pieces.for_each(|bytes| pipe.write_all(&bytes).unwrap_or_default()));
        }
        Ok(Self { child, open: stays_open.then_some(sender), output, errors, start, limit })
    }

    /// Returns the ID of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until standard output contains these bytes. Fails if the process ends before.
    pub(super) fn has_printed(&self, bytes: &[u8]) -> Result<()> {
        loop {
            // Reads this flag before the search: if both threads have ended by now, the search sees all
            // output.
            let has_ended = self.output.has_ended() && self.errors.has_ended();
            if self.output.pieces().bytes.windows(bytes.len()).any(|window| window == bytes) {
                return Ok(());
            }
            let is_going_on = !has_ended && self.start.elapsed() < self.limit;
            ensure!(
                is_going_on,
                "it has not printed {:?} but\n{}",
                String::from_utf8_lossy(bytes),
                self.text()
            );
            thread::sleep(POLL);
        }
    }

    /// Returns standard output and standard error up to now.
    fn text(&self) -> String {
        let text = |reader: &Reader| String::from_utf8_lossy(&reader.pieces().bytes).into_owned();
        streams(&text(&self.output), &text(&self.errors))
    }

    /// Waits for a line with this text on standard error, and returns the line.
    pub(super) fn error_line(&self, text: &str) -> Result<String> {
        loop {
            let has_ended = self.output.has_ended() && self.errors.has_ended();
            let errors = String::from_utf8_lossy(&self.errors.pieces().bytes).into_owned();
            let mut lines = errors.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.find(|line| line.contains(text)) {
                return Ok(line.to_owned());
            }
            let is_going_on = !has_ended && self.start.elapsed() < self.limit;
            ensure!(is_going_on, "it has not printed {text:?} but\n{}", self.text());
            thread::sleep(POLL);
        }
    }

    /// Sends a signal, named as for kill(1).
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        process::run(Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id())]))
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill a process")
    }

    /// Returns true if the process has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot wait for a process")?.is_some())
    }

    /// Writes bytes to an open input ([`ChildInput::Open`]).
    pub(super) fn send(&self, bytes: &[u8]) -> Result<()> {
        let open = self.open.as_ref().context("the input is not open")?;
        open.send(bytes.to_vec()).context("the input has ended")
    }

    /// Ends an open input ([`ChildInput::Open`]).
    pub(super) fn close_input(&mut self) {
        self.open = None;
    }

    /// Waits until the process ends.
    pub(super) fn end(mut self) -> Result<Outcome> {
        let mut is_late = false;
        let code = loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for a process")? {
                break status.code();
            }
            if !is_late && self.start.elapsed() > self.limit {
                is_late = true;
                self.child.kill().context("cannot kill a process")?;
            }
            thread::sleep(POLL);
        };
        self.open = None;
        let (Pieces { bytes: output, arrivals }, errors) = (self.output.end(), self.errors.end().bytes);
        let outcome = Outcome { code, output, errors, arrivals };
        ensure!(!is_late, "it ran for {:?} and was killed\n{outcome}", self.limit);
        Ok(outcome)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both calls fail if the process has ended, which is the usual case.
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<ExitStatus> = self.child.wait();
    }
}

/// Bytes that were read from a pipe.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// Times of the reads, each with the number of bytes that had arrived.
    arrivals: Vec<(Instant, usize)>,
}

/// A thread that reads a pipe to its end.
#[derive(Debug)]
struct Reader {
    pieces: Arc<Mutex<Pieces>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reader {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let pieces: Arc<Mutex<Pieces>> = Arc::default();
        let copy = Arc::clone(&pieces);
        let thread = thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                let mut pieces = locked(&copy);
                pieces.bytes.extend_from_slice(&piece[..count]);
                let length = pieces.bytes.len();
                pieces.arrivals.push((Instant::now(), length));
            }
        });
        Self { pieces, thread: Some(thread) }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        locked(&self.pieces)
    }

    /// Returns true if the pipe was read to its end.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    fn end(&mut self) -> Pieces {
        // An error is ignored: the thread does not panic.
        self.thread.take().map_or(Ok(()), thread::JoinHandle::join).unwrap_or_default();
        mem::take(&mut self.pieces())
    }
}

fn locked(pieces: &Mutex<Pieces>) -> MutexGuard<'_, Pieces> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{ChildInput, ChildProcess};
    use std::process::Command;
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn check_compares_output_and_exit_code() {
        let command = shell("cat; echo problem >&2; exit 3");
        let outcome =
            ChildProcess::start(command, ChildInput::Bytes(b"input\n".into()), LIMIT).unwrap().end().unwrap();
        assert_eq!(
            (outcome.output.as_slice(), outcome.errors.as_slice()),
            (&b"input\n"[..], &b"problem\n"[..])
        );
        outcome.check(3, &["input", "problem"]).unwrap();
        let message = outcome.check(0, &["other"]).unwrap_err().to_string();
        assert!(message.contains("Some(3) instead of 0") && message.contains("\"other\""), "{message}");
    }

    #[test]
    fn each_line_has_its_arrival_time() {
        let start = Instant::now();
        let running =
            ChildProcess::start(shell("echo a; sleep 2; echo b"), ChildInput::Nothing, LIMIT).unwrap();
        let outcome = running.end().unwrap();
        let lines: Vec<_> = outcome.lines().collect();
        assert_eq!((lines[0].1.as_str(), lines[1].1.as_str(), lines.len()), ("a", "b", 2));
        assert!(lines[1].0 - start >= Duration::from_secs(2) && lines[0].0 < lines[1].0);
    }

    #[test]
    fn process_is_killed_after_the_time_limit() {
        let running =
            ChildProcess::start(shell("cat"), ChildInput::Open(Vec::new()), Duration::from_millis(100));
        let message = running.unwrap().end().unwrap_err().to_string();
        assert!(message.contains("was killed"), "{message}");
    }

    #[test]
    fn open_input_does_not_end_before_the_process() {
        let running =
            ChildProcess::start(shell("read line; echo $line"), ChildInput::Open(b"x\n".into()), LIMIT)
                .unwrap();
        running.has_printed(b"x\n").unwrap();
        assert_eq!(running.end().unwrap().code, Some(0));
    }

    #[test]
    fn text_is_not_awaited_from_a_process_that_has_ended() {
        let script = "echo output; echo problem >&2";
        let running = ChildProcess::start(shell(script), ChildInput::Nothing, Duration::MAX).unwrap();
        running.has_printed(b"output\n").unwrap();
        let message = running.has_printed(b"other").unwrap_err().to_string();
        assert!(["other", "output\n", "problem\n"].iter().all(|text| message.contains(text)), "{message}");
    }

    #[test]
    fn error_line_is_a_whole_line() {
        let script = "echo a >&2; printf 'b 1' >&2; echo 2 >&2; read line";
        let running = ChildProcess::start(shell(script), ChildInput::Open(Vec::new()), LIMIT).unwrap();
        assert_eq!(running.error_line("b ").unwrap(), "b 12\n");
    }
}
