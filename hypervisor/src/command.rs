//! The command `uhyve`.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use hermit_interface::exit::{KILLED, NOT_STARTED};
use hermit_options::open::Opener;
use hermit_options::{grace_message, timeout_message};

use crate::cli::Arguments;
use crate::config::Config;
use crate::log::say;
use crate::power_button::PowerButton;
use crate::signals::{MainEvent, Signals};
use crate::stats::Statistics;
use crate::vm::Vm;
use crate::vm_handle::ShutdownCause;
use crate::{cgroup, check, log, sandbox, stats};

/// Exit code for a wrong command line, as of clap.
const USAGE_ERROR: u8 = 2;

/// Exit code after the time limit, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Base of the exit codes for signals, as of a shell: it is added to the signal's number.
const SIGNAL_BASE: u8 = 128;

/// Runs the command with the arguments of this process, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let started = Instant::now();
    let arguments = Arguments::parse();
    log::init(arguments.machine.verbose, arguments.machine.quiet);
    if arguments.check {
        return check::main(arguments.allow_partial_sandbox, arguments.jail.as_ref());
    }
    let limits = Limits { timeout: arguments.machine.timeout, grace: arguments.machine.grace() };
    let has_stats = arguments.machine.stats;
    let report = match ReportFile::create(arguments.report.as_deref()) {
        Ok(report) => report,
        Err(error) => return failed(format_args!("{error:#}"), USAGE_ERROR),
    };
    let cgroup = arguments.cgroup.clone();
    let config = match arguments.config() {
        Ok(config) => config,
        Err(error) => return failed(error, USAGE_ERROR),
    };
    let opener = Opener::new(&config.mounts);
    let status = stats::ProcessStatus::open(has_stats || report.0.is_some());
    let joined = cgroup.as_deref().map_or(Ok(()), |folder| cgroup::join(&opener, folder));
    match joined.and_then(|()| run(config, limits, has_stats, status, started)) {
        Ok((outcome, statistics)) => {
            report.write(&statistics, outcome);
            ExitCode::from(outcome.code)
        }
        Err(error) => {
            report.write(&Statistics::default(), Outcome { reason: "not started", code: NOT_STARTED });
            failed(error, NOT_STARTED)
        }
    }
}

/// How the run has ended.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Reason in the report (docs/running.md).
    reason: &'static str,
    /// uhyve's exit code.
    code: u8,
}

/// File of `--report`, opened before the sandbox denies it.
#[derive(Debug)]
struct ReportFile(Option<File>);

impl ReportFile {
    fn create(path: Option<&Path>) -> Result<Self> {
        let create =
            |path: &Path| File::create(path).with_context(|| format!("--report: {}", path.display()));
        Ok(Self(path.map(create).transpose()?))
    }

    fn write(&self, statistics: &Statistics, Outcome { reason, code }: Outcome) {
        let Some(mut file) = self.0.as_ref() else { return };
        if let Err(error) = file.write_all(statistics.json(reason, code).as_bytes()) {
            say(format_args!("error: --report: {error}"));
        }
    }
}

fn failed(error: impl Display, code: u8) -> ExitCode {
    say(format_args!("error: {error}"));
    ExitCode::from(code)
}

/// How long a guest may run.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Time limit, after which the guest is killed.
    timeout: Option<Duration>,
    /// Time from a request to end, which the program handles, until the guest is killed.
    grace: Duration,
}

/// How the run of a guest ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The VM has shut down.
    Shutdown,
    /// By the signal of this number.
    Signal(u8),
    /// The time limit was reached.
    TimedOut,
    /// The grace period was over.
    GraceExpired,
}

/// Runs the VM to its end.
fn run(
    config: Config,
    limits: Limits,
    has_stats: bool,
    status: stats::ProcessStatus,
    started: Instant,
) -> Result<(Outcome, Statistics)> {
    sandbox::close_inherited()?;
    let signals = Signals::new()?;
    let vm = Vm::new(config).load()?.start()?;
    let (handle, memory, exits) = (vm.handle(), vm.memory(), vm.exits());
    ::log::info!("the guest runs after {:?}", started.elapsed());
    signals.watch_shutdown(handle.shutdown_event())?;
    let deadline = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let end = wait(&signals, &vm.power_button(), deadline, limits.grace)?;
    if !matches!(end, End::Shutdown) {
        handle.shut_down(ShutdownCause::Requested);
    }
    let cause = vm.wait(deadline)?;
    let statistics = status.statistics(&exits, &memory, started);
    if has_stats {
        say(format_args!("{}", statistics.text()));
    }
    let (reason, code) = match end {
        End::Shutdown => report(&cause),
        End::Signal(number) => ("signal", SIGNAL_BASE.saturating_add(number)),
        End::TimedOut => {
            say(format_args!("error: {}", timeout_message(limits.timeout.unwrap_or_default())));
            ("timeout", TIMED_OUT)
        }
        End::GraceExpired => {
            say(format_args!("error: {}", grace_message(limits.grace)));
            ("grace period", KILLED)
        }
    };
    Ok((Outcome { reason, code }, statistics))
}

/// Waits until the VM has shut down or is to be killed. The first signal presses the power button, if the guest has
/// enabled it.
fn wait(signals: &Signals, button: &PowerButton, deadline: Option<Instant>, grace: Duration) -> Result<End> {
    match signals.wait(deadline)? {
        MainEvent::Shutdown => return Ok(End::Shutdown),
        MainEvent::Timeout => return Ok(End::TimedOut),
        MainEvent::Signal(number) if !button.press() => return Ok(End::Signal(number)),
        MainEvent::Signal(_) => {}
    }
    let end_of_grace = Instant::now().checked_add(grace);
    let (first, expired) = match (deadline, end_of_grace) {
        (Some(deadline), Some(grace)) if grace < deadline => (Some(grace), End::GraceExpired),
        (None, grace) => (grace, End::GraceExpired),
        (deadline, _) => (deadline, End::TimedOut),
    };
    Ok(match signals.wait(first)? {
        MainEvent::Shutdown => End::Shutdown,
        MainEvent::Signal(number) => End::Signal(number),
        MainEvent::Timeout => expired,
    })
}

/// Returns reason and exit code of a shutdown, and prints an error unless the guest has exited.
fn report(cause: &ShutdownCause) -> (&'static str, u8) {
    match cause {
        ShutdownCause::Exited(status) => ("exited", *status),
        // By gdb's `kill`: as if by SIGTERM.
        ShutdownCause::Requested => ("debugger", SIGNAL_BASE + 15),
        ShutdownCause::Reset => {
            say(format_args!(
                "error: the guest reset the CPU: it took a fault that its kernel could not handle"
            ));
            ("reset", NOT_STARTED)
        }
        ShutdownCause::Failed(reason) => {
            say(format_args!("error: {reason}"));
            ("failed", NOT_STARTED)
        }
        ShutdownCause::Denied(reason) => {
            say(format_args!("error: {reason}"));
            ("sandbox", sandbox::EXIT_CODE)
        }
    }
}
