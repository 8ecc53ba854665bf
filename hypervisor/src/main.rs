//! The command `uhyve`: runs an image in a VM.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use dlmalloc::GlobalDlmalloc;

/// Allocator of all threads, which rarely allocate. It takes few system calls and page faults at the start, the same
/// with each C library; musl's takes many, as each of glibc's arenas does.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

fn main() -> ExitCode {
    // A copy of this process is the parent of passt.
    hermit_options::passt::supervise().unwrap_or_else(uhyve::command::main)
}
