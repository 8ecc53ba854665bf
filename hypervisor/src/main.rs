//! The command `uhyve`: runs an image in a VM.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use uhyve::host::allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    uhyve::command::main()
}
