//! One machine of uhyve, its input, and what came of it.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{Read, Write};
use std::mem;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process;

/// What uhyve grants a guest, in seconds: a lot, for KVM may emulate and the host be busy.
const LIMIT: &str = "60";

/// When uhyve is killed that does not keep to it.
const OUTER_LIMIT: Duration = Duration::from_secs(75);

/// How often a running machine is looked at.
const POLL: Duration = Duration::from_millis(2);

/// What the guest reads.
#[derive(Debug)]
pub(super) enum Input {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and then it waits for more.
    Open(Vec<u8>),
    /// What is in the file.
    File(File),
    /// The end at once.
    Nothing,
}

/// uhyve with options, an image and the program's arguments.
#[derive(Debug)]
pub(super) struct Machine {
    /// uhyve and its options.
    command: Command,
    /// What follows the options.
    rest: Vec<OsString>,
    /// In seconds.
    limit: String,
    input: Input,
}

/// What came of a machine.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The exit code; there is none if a signal ended it.
    pub(super) code: Option<i32>,
    /// What is on standard output.
    pub(super) output: Vec<u8>,
    /// What is on standard error.
    pub(super) errors: Vec<u8>,
}

impl Machine {
    /// A machine with one CPU that reads nothing.
    pub(super) fn new(command: Command, image: &Path, arguments: &[&str]) -> Self {
        let words = ["--"].iter().chain(arguments).map(OsString::from);
        let rest = [image.as_os_str().to_owned()].into_iter().chain(words).collect();
        Self { command, rest, limit: LIMIT.to_owned(), input: Input::Nothing }
    }

    /// Adds options of uhyve.
    pub(super) fn options(mut self, options: &[&str]) -> Self {
        self.command.args(options);
        self
    }

    /// Adds CPUs.
    pub(super) fn cpus(self, cpus: u32) -> Self {
        self.options(&["--cpus", &cpus.to_string()])
    }

    /// Adds a disk, written as on the command line.
    pub(super) fn disk(self, disk: &str) -> Self {
        self.options(&["--block", disk])
    }

    /// Sets what the guest reads.
    pub(super) fn reads(self, input: Input) -> Self {
        Self { input, ..self }
    }

    /// Sets the time limit that uhyve is told, in seconds.
    pub(super) fn limit(self, seconds: &str) -> Self {
        Self { limit: seconds.to_owned(), ..self }
    }

    /// Has another program start uhyve: it gets the whole command as arguments behind `words`.
    pub(super) fn started_by(mut self, words: &[&str]) -> Self {
        let mut command = Command::new(words.first().copied().unwrap_or("env"));
        command.args(words.iter().skip(1)).arg(self.command.get_program()).args(self.command.get_args());
        self.command = command;
        self
    }

    /// Starts it.
    pub(super) fn start(mut self) -> Result<Running> {
        self.command.args(["--timeout", &self.limit]).args(self.rest);
        Running::start(self.command, self.input)
    }

    /// Runs it to its end.
    pub(super) fn run(self) -> Result<Outcome> {
        self.start()?.end()
    }

    /// Runs it and checks the exit code and that it prints certain texts, wherever.
    pub(super) fn expect(self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }
}

impl Outcome {
    /// Everything that was printed: first standard output, then standard error.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&[self.output.as_slice(), &self.errors].concat()).into_owned()
    }

    /// Compares with what is expected.
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
        write!(out, "--- standard output:\n{output}\n--- standard error:\n{errors}\n---")
    }
}

/// A thread that reads a pipe to its end, and what it has read so far.
#[derive(Debug)]
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: thread::JoinHandle<()>,
}

impl Reader {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::default();
        let copy = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                locked(&copy).extend_from_slice(&piece[..count]);
            }
        });
        Self { bytes, thread }
    }

    fn end(self) -> Vec<u8> {
        // The thread has no way to fail.
        let _: thread::Result<()> = self.thread.join();
        mem::take(&mut locked(&self.bytes))
    }
}

fn locked(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine that runs.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<Reader>,
    errors: Option<Reader>,
    start: Instant,
}

impl Running {
    fn start(mut command: Command, input: Input) -> Result<Self> {
        let (stdin, bytes, stays_open) = match input {
            Input::Bytes(bytes) => (Stdio::piped(), bytes, false),
            Input::Open(bytes) => (Stdio::piped(), bytes, true),
            Input::File(file) => (file.into(), Vec::new(), false),
            Input::Nothing => (Stdio::null(), Vec::new(), false),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", process::display(&command)))?;
        let output = child.stdout.take().map(Reader::new);
        let errors = child.stderr.take().map(Reader::new);
        let mut input = child.stdin.take();
        if stays_open {
            input
                .as_mut()
                .map_or(Ok(()), |pipe| pipe.write_all(&bytes))
                .context("cannot write to a guest")?;
        } else if let Some(mut pipe) = input.take() {
            // A guest that has ended reads no more: nothing is left to be done about an error.
            thread::spawn(move || pipe.write_all(&bytes).unwrap_or_default());
        }
        Ok(Self { child, input, output, errors, start })
    }

    /// Waits until these bytes are on standard output.
    pub(super) fn has_printed(&self, bytes: &[u8]) -> Result<()> {
        let reader = self.output.as_ref().context("the guest has no output")?;
        while !locked(&reader.bytes).windows(bytes.len()).any(|window| window == bytes) {
            ensure!(self.start.elapsed() < OUTER_LIMIT, "it has not printed what it should");
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Sends a signal, named as for kill(1).
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        process::run(Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]))
    }

    /// Waits for the end.
    pub(super) fn end(mut self) -> Result<Outcome> {
        let mut is_late = false;
        let code = loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for uhyve")? {
                break status.code();
            }
            if !is_late && self.start.elapsed() > OUTER_LIMIT {
                is_late = true;
                self.child.kill().context("cannot kill uhyve")?;
            }
            thread::sleep(POLL);
        };
        drop(self.input);
        let text = |reader: Option<Reader>| reader.map(Reader::end).unwrap_or_default();
        let outcome = Outcome { code, output: text(self.output), errors: text(self.errors) };
        ensure!(!is_late, "it ran for {OUTER_LIMIT:?} and was killed\n{outcome}");
        Ok(outcome)
    }
}
