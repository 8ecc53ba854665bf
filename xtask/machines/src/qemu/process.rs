//! The process of QEMU: its start, end and time limit.
//!
//! QEMU's own exit code says nothing about the program in the guest: the guest writes the program's status to
//! a file in a temporary folder ([`status`]). While QEMU runs, this process polls for reasons to end QEMU:
//! the time limit, signals to this process, and the end of a program that serves a device, such as virtiofsd.
//! The first signal presses the guest's power button, if its program handles requests to end. A second
//! signal, or the end of the grace period, kills QEMU.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hermit_toolchain::process::{self, dies_with_parent};
use hermit_toolchain::setup::packages;
use tempfile::TempDir;

use super::console::{drain, feed, feed_device, is_same_file, relay_errors};
use super::files::{input_fifo, press_power_button, status};
use super::{Guest, Input, QEMU};
use crate::signals;

/// Interval at which a running guest is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Time limit for copying the rest of standard error after the guest was killed.
const RELAY_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for QEMU to exit by itself after a program that serves its devices has exited.
const EXIT_TIME: Duration = Duration::from_secs(5);

/// Result of a guest's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(u8),
    /// It reached its time limit and was killed.
    TimedOut,
    /// It was killed because this process received a signal: the guest's program does not handle requests to
    /// end, or the signal was the second one. The number is the exit code for the signal.
    Signal(u8),
    /// It did not end within the grace period after a signal and was killed.
    GraceExpired,
    /// It was killed because a program that serves its devices has ended.
    NotServed,
    /// QEMU exited before the guest wrote a status: the machine was reset, or QEMU rejected its options.
    NoStatus,
}

impl Guest {
    /// Runs the guest until it exits. The guest's output goes to the output streams of this process. If both
    /// streams are the same file, such as a terminal, the guest has only one stream, which keeps the order of
    /// its writes. Kills the guest if `is_served` returns false: a program that serves one of the guest's
    /// devices has ended.
    pub fn run(&self, input: Input, is_served: &mut dyn FnMut() -> bool) -> Result<End> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let guest = Self {
            has_input_device: true,
            has_error_stream: !is_same_file(io::stdout().as_fd(), io::stderr().as_fd()),
            ..self.clone()
        };
        // The guest's second serial port writes to QEMU's standard error, which QEMU opens again by its path.
        // That works for a pipe, but not for every file. So QEMU's standard error is a pipe, and a thread
        // copies from it.
        let errors = if guest.has_error_stream { Stdio::piped() } else { Stdio::inherit() };
        let command = dies_with_parent(guest.command(folder.path())?);
        let mut child = guest.start(command, Stdio::inherit(), errors)?;
        guest.feed(&mut child, folder.path(), input);
        let relay = child.stderr.take().map(|pipe| thread::spawn(move || relay_errors(pipe)));
        let end = guest.wait(&mut child, folder.path(), is_served)?;
        if let Some(relay) = relay {
            // If the reader of standard error has stopped reading, the copy never ends. So after the guest
            // was killed, or after Ctrl-C, this process does not wait for the copy any longer.
            let limit = if let End::Exited(_) | End::NoStatus = end { Duration::MAX } else { RELAY_TIMEOUT };
            let (start, signals) = (Instant::now(), signals::count());
            while !relay.is_finished() && start.elapsed() < limit && signals::count() == signals {
                thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(end)
    }

    /// Runs the guest until it exits, and returns its output followed by the standard error of QEMU.
    pub fn capture(&self, input: Input) -> Result<(End, Vec<u8>)> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let mut child = self.start(self.command(folder.path())?, Stdio::piped(), Stdio::piped())?;
        self.feed(&mut child, folder.path(), input);
        let output = child.stdout.take().map(|pipe| thread::spawn(move || drain(pipe)));
        let errors = child.stderr.take().map(|pipe| thread::spawn(move || drain(pipe)));
        let end = self.wait(&mut child, folder.path(), &mut || true);
        let collect =
            |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.and_then(|thread| thread.join().ok());
        let mut text = collect(output).unwrap_or_default();
        text.extend(collect(errors).unwrap_or_default());
        Ok((end?, text))
    }

    /// Runs the guest until its first byte of output, and returns the time from the start of QEMU to that
    /// byte. Without an image, the first output is the loader's error message on standard error.
    pub fn time_to_output(&self) -> Result<Duration> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let start = Instant::now();
        let mut child = self.start(self.command(folder.path())?, Stdio::piped(), Stdio::piped())?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let first = match (output, errors) {
            (Some(mut output), Some(_)) if self.image.is_some() => output.read_exact(&mut [0]),
            (Some(_), Some(mut errors)) => errors.read_exact(&mut [0]),
            _ => bail!("the guest has no output"),
        };
        let time = start.elapsed();
        // `kill` fails if QEMU has exited meanwhile, which is not an error.
        let _: io::Result<()> = child.kill();
        child.wait().context("cannot wait for QEMU")?;
        first.context("the guest printed nothing")?;
        Ok(time)
    }

    fn start(&self, mut command: Command, output: Stdio, errors: Stdio) -> Result<Child> {
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        if self.verbose {
            eprintln!("{}", process::display(&command));
        }
        if process::find(QEMU).is_none() {
            return Err(packages::QEMU.missing());
        }
        command.spawn().with_context(|| format!("cannot start {QEMU}"))
    }

    /// Starts to copy the input to the guest.
    fn feed(&self, child: &mut Child, folder: &Path, input: Input) {
        if self.has_input_device {
            feed_device(input_fifo(folder), input);
        } else {
            feed(child, input);
        }
    }

    fn wait(&self, child: &mut Child, folder: &Path, is_served: &mut dyn FnMut() -> bool) -> Result<End> {
        let mut watch = Watch::new(self, folder);
        while child.try_wait().context("cannot wait for QEMU")?.is_none() {
            let Some(end) = watch.reason_to_kill().or_else(|| watch.not_served(is_served())) else {
                thread::sleep(POLL_INTERVAL);
                continue;
            };
            // QEMU may have exited before the program that served it, if this process has not polled for a
            // while.
            if end == End::NotServed && child.try_wait().context("cannot wait for QEMU")?.is_some() {
                break;
            }
            // `kill` fails if QEMU has exited meanwhile.
            let _: io::Result<()> = child.kill();
            child.wait().context("cannot wait for QEMU")?;
            return Ok(end);
        }
        Ok(status(folder).map_or(End::NoStatus, End::Exited))
    }
}

/// Time limit of a running guest, and signals to this process.
#[derive(Debug)]
struct Watch<'a> {
    guest: &'a Guest,
    folder: &'a Path,
    start: Instant,
    /// Connection to QEMU's monitor over which the first signal pressed the power button, and the time of
    /// that.
    request: Option<(UnixStream, Instant)>,
    /// Time at which a program that serves the devices was found to have ended.
    not_served: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(guest: &'a Guest, folder: &'a Path) -> Self {
        Self { guest, folder, start: Instant::now(), request: None, not_served: None }
    }

    /// Returns the reason to kill the guest, if there is one. After the first signal, presses the power
    /// button instead, if the program handles it.
    fn reason_to_kill(&mut self) -> Option<End> {
        match (signals::count(), &self.request) {
            (0, _) => {}
            (1, None) => match press_power_button(self.folder) {
                Some(connection) => self.request = Some((connection, Instant::now())),
                None => return signals::exit_code().map(End::Signal),
            },
            (1, Some((_, since))) if since.elapsed() >= self.guest.grace => return Some(End::GraceExpired),
            (1, Some(_)) => {}
            _ => return signals::exit_code().map(End::Signal),
        }
        let late = self.guest.timeout.is_some_and(|timeout| self.start.elapsed() >= timeout);
        late.then_some(End::TimedOut)
    }

    /// Returns [`End::NotServed`] if the guest's devices are no longer served. But the serving programs also
    /// end when QEMU ends, so QEMU first gets time to exit by itself.
    fn not_served(&mut self, is_served: bool) -> Option<End> {
        if is_served || status(self.folder).is_some() {
            return None;
        }
        let since = *self.not_served.get_or_insert_with(Instant::now);
        (since.elapsed() >= EXIT_TIME).then_some(End::NotServed)
    }
}
