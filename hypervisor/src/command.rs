//! What the command does.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use hermit_interface::exit::NOT_STARTED;

use crate::cli::Arguments;
use crate::config::Config;
use crate::log::say;
use crate::machine::End;
use crate::signals::{Event, Signals};
use crate::vm::Vm;
use crate::{check, log, sandbox, stats};

/// Exit code of a wrong command line, as clap has it.
const MISUSED: u8 = 2;

/// Exit code of a guest that ran for too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// What a shell adds to the number of the signal that ended a process.
const SIGNAL: u8 = 128;

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let started = Instant::now();
    let arguments = Arguments::parse();
    log::init(arguments.verbose);
    if arguments.check {
        return check::main();
    }
    let (timeout, has_stats) = (arguments.timeout, arguments.stats);
    let config = match arguments.config() {
        Ok(config) => config,
        Err(error) => return failed(error, MISUSED),
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

fn run(config: Config, timeout: Option<Duration>, has_stats: bool, started: Instant) -> Result<u8> {
    sandbox::close_inherited()?;
    let account = has_stats.then(stats::Account::open);
    let signals = Signals::new()?;
    let vm = Vm::new(config).load()?.start()?;
    let (machine, memory) = (vm.machine(), vm.memory());
    ::log::info!("the guest runs after {:?}", started.elapsed());
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let event = signals.wait(machine.ended(), deadline)?;
    if event != Event::Ended {
        machine.finish(End::Stopped);
    }
    let end = vm.wait(deadline)?;
    if let Some(account) = account {
        say(format_args!("{}", account.report(&machine, &memory, started)));
    }
    Ok(match event {
        Event::Ended => report(&end),
        Event::Signal(number) => SIGNAL.saturating_add(number),
        Event::Timeout => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            say(format_args!("error: the guest ran for more than {limit} s and was ended"));
            TIMED_OUT
        }
    })
}

/// The exit code that an end means; says why if it is not the guest's.
fn report(end: &End) -> u8 {
    match end {
        End::Exited(status) => return *status,
        // gdb's user wanted that: as if by SIGTERM.
        End::Stopped => return SIGNAL + 15,
        End::Reset => {
            say(format_args!("error: the guest reset the machine: it met a fault that it could not handle"));
        }
        End::Failed(reason) => say(format_args!("error: {reason}")),
        End::Denied(reason) => {
            say(format_args!("error: {reason}"));
            return sandbox::EXIT_CODE;
        }
    }
    NOT_STARTED
}
