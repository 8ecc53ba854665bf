//! Builder for a command line of uhyve.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::test::child::{ChildInput, ChildProcess, Outcome, started_by};
use crate::test::platform::LIMIT;

/// Time after uhyve's own time limit until the test kills uhyve.
const GRACE: Duration = Duration::from_secs(60);

/// uhyve with options, an image and the program's arguments.
#[derive(Debug)]
pub(in crate::test) struct UhyveCommand {
    /// uhyve and its options.
    command: Command,
    /// The image and its arguments, which follow the options.
    rest: Vec<OsString>,
    limit: Duration,
    input: ChildInput,
}

impl UhyveCommand {
    /// Returns a command for a guest with one CPU and no input.
    pub(in crate::test) fn new(command: Command, image: &Path, arguments: &[&str]) -> Self {
        let words = ["--"].iter().chain(arguments).map(OsString::from);
        let rest = [image.as_os_str().to_owned()].into_iter().chain(words).collect();
        Self { command, rest, limit: LIMIT, input: ChildInput::Nothing }
    }

    /// Adds options of uhyve.
    pub(in crate::test) fn options(mut self, options: &[&str]) -> Self {
        self.command.args(options);
        self
    }

    /// Sets the number of CPUs.
    pub(in crate::test) fn cpus(self, cpus: u32) -> Self {
        self.options(&["--cpus", &cpus.to_string()])
    }

    /// Adds a disk. `disk` is the value of the option `--block`.
    pub(in crate::test) fn disk(self, disk: &str) -> Self {
        self.options(&["--block", disk])
    }

    /// Sets the guest's standard input.
    pub(in crate::test) fn reads(self, input: ChildInput) -> Self {
        Self { input, ..self }
    }

    /// Makes `examples/stdin` wait for input after it has printed `READY`.
    pub(in crate::test) fn waits(self) -> Self {
        self.reads(ChildInput::Open(b"ready\n".to_vec()))
    }

    /// Sets uhyve's time limit.
    pub(in crate::test) fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Makes another program start uhyve. `words` are that program and its first arguments; the command line
    /// of uhyve follows them.
    pub(in crate::test) fn started_by(mut self, words: &[&str]) -> Self {
        self.command = started_by(&self.command, words);
        self
    }

    /// Starts uhyve.
    pub(in crate::test) fn start(mut self) -> Result<ChildProcess> {
        self.command.args(["--timeout", &self.limit.as_secs_f64().to_string()]).args(self.rest);
        ChildProcess::start(self.command, self.input, self.limit + GRACE)
    }

    /// Runs uhyve to its end.
    pub(in crate::test) fn run(self) -> Result<Outcome> {
        self.start()?.end()
    }

    /// Runs uhyve to its end. Checks the exit code, and that standard output or standard error contains each
    /// text.
    pub(in crate::test) fn expect(self, code: i32, texts: &[&str]) -> Result<Outcome> {
        let outcome = self.run()?;
        outcome.check(code, texts)?;
        Ok(outcome)
    }
}
