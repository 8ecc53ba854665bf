//! What the command does.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use hermit_interface::exit::NOT_STARTED;

use crate::cli::Arguments;
use crate::machine::{End, Machine};
use crate::signals::Signals;
use crate::vm::Vm;
use crate::{check, log, sandbox, stats};

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
    match run(arguments, started) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("uhyve: error: {error}");
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn run(arguments: Arguments, started: Instant) -> Result<u8> {
    let timeout = arguments.timeout;
    sandbox::close_inherited()?;
    let account = arguments.stats.then(stats::Account::open);
    let signals = Signals::new()?;
    let config = arguments.config().map_err(anyhow::Error::msg)?;
    let vm = Vm::new(config).load()?.start()?;
    let machine = vm.machine();
    ::log::info!("the guest runs after {:?}", started.elapsed());
    let code = wait(&signals, timeout, &machine)?;
    signals.give_up();
    let end = vm.wait()?;
    if let Some(account) = account {
        eprint!("{}", account.report(&machine, started));
    }
    Ok(code.unwrap_or_else(|| report(&end)))
}

/// Waits for the guest, and ends it if it is time; then returns the exit code.
fn wait(signals: &Signals, timeout: Option<Duration>, machine: &Arc<Machine>) -> Result<Option<u8>> {
    let code = match signals.wait(machine.ended(), timeout)? {
        crate::signals::Event::Ended => return Ok(None),
        crate::signals::Event::Signal(number) => SIGNAL.saturating_add(number),
        crate::signals::Event::Timeout => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            eprintln!("uhyve: error: the guest ran for more than {limit} s and was ended");
            TIMED_OUT
        }
    };
    machine.finish(End::Stopped);
    Ok(Some(code))
}

/// The exit code that an end means; says why if it is not the guest's.
fn report(end: &End) -> u8 {
    match end {
        End::Exited(status) => return *status,
        End::Stopped => {}
        End::Reset => {
            eprintln!("uhyve: error: the guest reset the machine: it met a fault that it could not handle");
        }
        End::Failed(reason) => eprintln!("uhyve: error: {reason}"),
    }
    NOT_STARTED
}
