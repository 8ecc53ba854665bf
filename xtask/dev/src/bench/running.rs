//! A child process whose output is timed.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hermit_toolchain::process;
use tempfile::TempDir;

/// A running VMM or other program, which is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct RunningProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    start: Instant,
    /// Folder of files that exist as long as the program runs.
    _files: Option<TempDir>,
}

impl RunningProcess {
    /// Starts a program.
    pub(super) fn start(command: Command) -> Result<Self> {
        Self::start_with(command, None)
    }

    /// Starts a program that uses files. They are removed after the program was killed on drop.
    pub(super) fn start_with(mut command: Command, files: Option<TempDir>) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", process::display(&command)))?;
        let output = child.stdout.take().context("the program has no output")?;
        let input = child.stdin.take().context("the program has no input")?;
        Ok(Self { child, input, output, start, _files: files })
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes to the program's standard input, which stays open.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.input.write_all(bytes).context("the program reads nothing")
    }

    /// Waits for the first byte of output and returns the time since the start.
    pub(super) fn first_byte(&mut self) -> Result<Duration> {
        self.output.read_exact(&mut [0]).context("the program printed nothing")?;
        Ok(self.start.elapsed())
    }

    /// Waits for the exit and returns the time since the start.
    pub(super) fn end(&mut self) -> Result<Duration> {
        self.output.read_to_end(&mut Vec::new()).context("cannot read the program's output")?;
        self.child.wait().context("cannot wait for the program")?;
        Ok(self.start.elapsed())
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // Both calls fail if the process has been reaped already, which is not an error.
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<ExitStatus> = self.child.wait();
    }
}
