//! The command `uhyve`: runs an image in a VM.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    uhyve::command::main()
}
