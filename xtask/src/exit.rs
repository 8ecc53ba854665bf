//! Exit codes of `cargo xtask`.

use std::process::ExitCode;

use anyhow::Result;
use hermit_interface::exit::NOT_STARTED;
use hermit_toolchain::usage::UsageError;

/// Exit code for an invalid command line, as clap has it.
const USAGE: u8 = 2;

/// Returns the exit code of a command that succeeds or fails, and prints its error.
pub fn of_command(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<UsageError>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Returns the exit code of a command that runs a guest: the guest's own, or that of an error if the guest
/// did not run. Prints the error.
pub fn of_guest(result: Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { USAGE } else { NOT_STARTED })
        }
    }
}
