//! The command `uhyve`: from the command line to the exit code.
//!
//! `main` parses the command line, and runs a guest or another command. Signals and the time limit are
//! handled from the start, because reading a file can block. Once the guest runs, the main thread only waits
//! for the first of three events: the VM shuts down, a signal arrives, or a time limit passes. Each event
//! determines a reason and an exit code. `main` returns the exit code, and writes both to the report
//! (`--report`) if the user has asked for one.

mod alarm;
mod check;
pub mod cli;
pub mod signals;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use hermit_interface::exit::{KILLED, NOT_STARTED};
use hermit_options::open::Opener;
use hermit_options::{MachineOptions, grace_message, timeout_message};

use crate::command::alarm::Alarm;
use crate::command::cli::{Arguments, Command};
use crate::command::signals::{MainEvent, Signals};
use crate::config::Config;
use crate::devices::power_button::PowerButton;
use crate::host::log::say;
use crate::host::{cgroup, log};
use crate::network::qemu::{self, NetArguments};
use crate::report::{self, Outcome, SIGNAL_BASE, TIMED_OUT};
use crate::sandbox;
use crate::vcpu::shutdown::ShutdownCause;
use crate::vcpu::stats;
use crate::vcpu::stats::Statistics;
use crate::vm::Vm;

/// Exit code for a wrong command line, the same as clap's.
const USAGE_ERROR: u8 = 2;

/// Runs the command with the arguments of this process, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let started = Instant::now();
    // This comes before anything else, because a signal must be able to end this process while it reads
    // files.
    if let Err(error) = signals::unblock_all() {
        return failed(format_args!("cannot unblock signals: {error}"), NOT_STARTED);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_command_line(&error),
    };
    if let Some(file) = &arguments.log_file
        && let Err(error) = log::write_to(&arguments.machine.opener(), file)
    {
        return failed(format_args!("--log-file: {}: {error}", file.display()), USAGE_ERROR);
    }
    if let Some(Command::Net(arguments)) = &arguments.command {
        return serve_network(arguments);
    }
    log::init(arguments.machine.verbose, arguments.machine.quiet);
    if arguments.check {
        return check::main(arguments.allow_partial_sandbox, arguments.jail.as_ref(), &arguments.require);
    }
    let prepared = Prepared::new(&arguments.machine, started);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return failed(format_args!("{error:#}"), NOT_STARTED),
    };
    if let Some(path) = &arguments.report
        && let Err(error) = report::create(&arguments.machine.opener(), path)
    {
        return failed(format_args!("--report: {}: {error}", path.display()), USAGE_ERROR);
    }
    // The report is in place, so the alarm's handler can now write that the time limit was reached.
    alarm::arm();
    let cgroup = arguments.cgroup.clone();
    let config = match arguments.config() {
        Ok(config) => config,
        Err(error) => {
            write_end(Outcome { reason: "not started", code: USAGE_ERROR }, None);
            return failed(error, USAGE_ERROR);
        }
    };
    let opener = Opener::new(&config.mounts);
    let joined = cgroup.as_deref().map_or(Ok(()), |folder| cgroup::join(&opener, folder));
    match joined.and_then(|()| run(config, prepared)) {
        Ok((outcome, statistics)) => {
            write_end(outcome, Some(&statistics));
            ExitCode::from(outcome.code)
        }
        Err(error) => {
            write_end(Outcome { reason: "not started", code: NOT_STARTED }, None);
            failed(error, NOT_STARTED)
        }
    }
}

/// Runs `uhyve net`.
fn serve_network(arguments: &NetArguments) -> ExitCode {
    log::init(arguments.verbose, arguments.quiet);
    let network = match arguments.config() {
        Ok(network) => network,
        Err(error) => return failed(error, USAGE_ERROR),
    };
    match qemu::serve(arguments, &network) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("{error:#}"), NOT_STARTED),
    }
}

/// Signals and time limits, which are set up before files are read.
#[derive(Debug)]
struct Prepared {
    started: Instant,
    signals: Signals,
    limits: Limits,
    alarm: Option<Alarm>,
    has_stats: bool,
}

impl Prepared {
    fn new(machine: &MachineOptions, started: Instant) -> Result<Self> {
        let limits = Limits { timeout: machine.timeout, grace: machine.grace() };
        let signals = Signals::new()?;
        let alarm = limits.timeout.map(|limit| Alarm::new(limit, started)).transpose()?;
        Ok(Self { started, signals, limits, alarm, has_stats: machine.stats })
    }
}

/// Prints the error in the command line, or the help that the user has asked for. Returns the exit code.
fn wrong_command_line(error: &clap::Error) -> ExitCode {
    // Printing fails if the reader has closed the pipe.
    let _: io::Result<()> = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if let Some(path) = report_path(env::args_os().skip(1)) {
        // Errors are ignored, because the user has already seen the error in the command line.
        let _: io::Result<()> = report::create(&Opener::default(), Path::new(&path));
        write_end(Outcome { reason: "not started", code: USAGE_ERROR }, None);
    }
    ExitCode::from(USAGE_ERROR)
}

/// Returns the value of `--report` in a command line that has an error elsewhere.
fn report_path(arguments: impl Iterator<Item = OsString>) -> Option<OsString> {
    let mut own = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = own.next() {
        if argument == "--report" {
            return own.next();
        }
        if let Some(path) = argument.as_encoded_bytes().strip_prefix(b"--report=") {
            return Some(OsStr::from_bytes(path).to_owned());
        }
    }
    None
}

fn write_end(outcome: Outcome, statistics: Option<&Statistics>) {
    if let Err(error) = report::write_end(outcome, statistics) {
        say(format_args!("error: --report: {error}"));
    }
}

fn failed(error: impl Display, code: u8) -> ExitCode {
    say(format_args!("error: {error}"));
    ExitCode::from(code)
}

/// Time limits of a guest.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Time limit, after which the guest is killed.
    timeout: Option<Duration>,
    /// Time between a request to end and the kill of the guest, if its program handles the request.
    grace: Duration,
}

/// How the run of a guest ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The VM has shut down.
    Shutdown,
    /// The signal with this number ended it.
    Signal(u8),
    /// The time limit was reached.
    TimedOut,
    /// The grace period after a request to end was over.
    GraceExpired,
}

/// Runs the VM to its end.
fn run(config: Config, prepared: Prepared) -> Result<(Outcome, Statistics)> {
    let Prepared { started, signals, limits, alarm, has_stats } = prepared;
    sandbox::close_inherited()?;
    let status = stats::ProcessStatus::open(has_stats || report::is_wanted());
    let vm = Vm::new(config).load()?;
    // From now on the main thread enforces the limit itself. The sandbox would deny the deletion of the
    // timers later, so they are deleted now.
    drop(alarm);
    let vm = vm.start()?;
    let (handle, memory, exits) = (vm.handle(), vm.memory(), vm.exits());
    ::log::info!("the guest runs after {:?}", started.elapsed());
    signals.watch_shutdown(handle.shutdown_event())?;
    let deadline = limits.timeout.and_then(|timeout| started.checked_add(timeout));
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
        End::Shutdown => describe(&cause),
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

/// Waits until the VM has shut down, or must be killed. The first signal presses the power button. If the
/// guest has enabled the button, the guest then has the grace period to end; otherwise the signal ends it.
fn wait(signals: &Signals, button: &PowerButton, deadline: Option<Instant>, grace: Duration) -> Result<End> {
    match signals.wait(deadline)? {
        MainEvent::Shutdown => return Ok(End::Shutdown),
        MainEvent::Timeout => return Ok(End::TimedOut),
        MainEvent::Signal(number) if !button.press() => return Ok(End::Signal(number)),
        MainEvent::Signal(_) => {}
    }
    let end_of_grace = Instant::now().checked_add(grace);
    // The earlier limit ends the wait.
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

/// Returns the reason and the exit code of a shutdown. Prints an error unless the guest has exited by itself.
fn describe(cause: &ShutdownCause) -> (&'static str, u8) {
    match cause {
        ShutdownCause::Exited(status) => ("exited", *status),
        // gdb's `kill` counts as SIGTERM.
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

#[cfg(test)]
mod tests {
    use super::report_path;

    #[test]
    fn report_is_found_in_a_wrong_command_line() {
        let path = |line: &str| report_path(line.split(' ').map(Into::into));
        for line in ["--report r.json --cpus 0 image", "--cpus 0 --report=r.json image"] {
            assert_eq!(path(line), Some("r.json".into()), "{line}");
        }
        for line in ["--cpus 0 image", "--cpus 0 image -- --report r.json", "--report"] {
            assert_eq!(path(line), None, "{line}");
        }
    }
}
