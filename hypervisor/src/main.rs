//! The command `uhyve`: runs an image in a VM.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use uhyve::allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    // A copy of this process is the parent of passt.
    hermit_options::passt::supervise().unwrap_or_else(uhyve::command::main)
}
