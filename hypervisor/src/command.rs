//! The command `uhyve`.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use hermit_interface::exit::NOT_STARTED;

use crate::cli::Arguments;
use crate::config::Config;
use crate::log::say;
use crate::signals::{MainEvent, Signals};
use crate::vm::Vm;
use crate::vm_handle::ShutdownCause;
use crate::{check, log, sandbox, stats};

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
        return check::main();
    }
    let (timeout, has_stats) = (arguments.machine.timeout, arguments.machine.stats);
    let config = match arguments.config() {
        Ok(config) => config,
        Err(error) => return failed(error, USAGE_ERROR),
    };
    match run(config, timeout, has_stats, started) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(error, NOT_STARTED),
    }
}

fn failed(error: impl Display, code: u8) -> ExitCode {
    say(format_args!("error: {error}"));
    ExitCode::from(code)
}

/// Runs the VM to its end, and returns the exit code.
fn run(config: Config, timeout: Option<Duration>, has_stats: bool, started: Instant) -> Result<u8> {
    sandbox::close_inherited()?;
    let status = has_stats.then(stats::ProcessStatus::open);
    let signals = Signals::new()?;
    let vm = Vm::new(config).load()?.start()?;
    let (handle, memory, exits) = (vm.handle(), vm.memory(), vm.exits());
    ::log::info!("the guest runs after {:?}", started.elapsed());
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let event = signals.wait(handle.shutdown_event(), deadline)?;
    if event != MainEvent::Shutdown {
        handle.shut_down(ShutdownCause::Requested);
    }
    let cause = vm.wait(deadline)?;
    if let Some(status) = status {
        say(format_args!("{}", status.report(&exits, &memory, started)));
    }
    Ok(match event {
        MainEvent::Shutdown => report(&cause),
        MainEvent::Signal(number) => SIGNAL_BASE.saturating_add(number),
        MainEvent::Timeout => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            say(format_args!("error: the guest ran for more than {limit} s and was killed"));
            TIMED_OUT
        }
    })
}

/// Returns the exit code for a shutdown, and prints an error unless the guest has exited.
fn report(cause: &ShutdownCause) -> u8 {
    match cause {
        ShutdownCause::Exited(status) => return *status,
        // By gdb's `kill`: as if by SIGTERM.
        ShutdownCause::Requested => return SIGNAL_BASE + 15,
        ShutdownCause::Reset => {
            say(format_args!(
                "error: the guest reset the CPU: it took a fault that its kernel could not handle"
            ));
        }
        ShutdownCause::Failed(reason) => say(format_args!("error: {reason}")),
        ShutdownCause::Denied(reason) => {
            say(format_args!("error: {reason}"));
            return sandbox::EXIT_CODE;
        }
    }
    NOT_STARTED
}
