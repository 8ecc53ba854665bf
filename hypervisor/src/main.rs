//! `uhyve IMAGE`: runs a program as a virtual machine.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    uhyve::command::main()
}
