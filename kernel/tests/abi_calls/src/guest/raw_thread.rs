//! Threads that are started without std.

#![expect(unsafe_code, reason = "the kernel passes a thread's argument as an integer")]

use std::arch::asm;
use std::ptr;

use hermit_abi::Tid;

use super::calls::{self, ErrnoResult, call_result};

/// Any CPU.
pub(crate) const ANY_CPU: isize = -1;

/// Priority of std's threads.
pub(crate) const NORMAL_PRIORITY: u8 = 2;

type Work = Box<dyn FnOnce() + Send>;

extern "C" fn run(argument: usize) {
    // SAFETY: `prepare` made the pointer with `Box::into_raw`, for this thread, which takes it back once.
    let work = unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Work>(argument)) };
    work();
}

fn prepare(work: impl FnOnce() + Send + 'static) -> usize {
    Box::into_raw(Box::new(Box::new(work) as Work)).expose_provenance()
}

/// Frees the argument of a thread that was not started.
fn free(argument: usize) {
    // SAFETY: `prepare` made the pointer with `Box::into_raw`, and no thread was started that could take it
    // back.
    drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Work>(argument)) });
}

/// Starts a thread.
pub(crate) fn spawn(priority: u8, core: isize, work: impl FnOnce() + Send + 'static) -> ErrnoResult<Tid> {
    let argument = prepare(work);
    let mut id = 0;
    // SAFETY: `id` is writable, and the closure is `Send` and `'static`, so it may run in another thread at
    // any time.
    let result = call_result(unsafe { hermit_abi::spawn(&raw mut id, run, argument, priority, core) });
    result.inspect_err(|_| free(argument)).map(|_| id)
}

/// Starts a thread with a stack of `stack_size` bytes.
pub(crate) fn spawn2(
    priority: u8,
    stack_size: usize,
    core: isize,
    work: impl FnOnce() + Send + 'static,
) -> ErrnoResult<Tid> {
    let argument = prepare(work);
    // SAFETY: the closure is `Send` and `'static`, so it may run in another thread at any time.
    let id = unsafe { hermit_abi::spawn2(run, argument, priority, stack_size, core) };
    if id != 0 {
        return Ok(id);
    }
    let errno = calls::errno();
    free(argument);
    Err(errno)
}

/// Identifies this CPU by the address of the kernel's per-CPU data, which GS points to. A virtual CPU that is
/// a host thread has no hardware CPU number of its own.
pub(crate) fn cpu() -> u64 {
    let own: u64;
    // SAFETY: the first word of the kernel's per-CPU data is mapped on every CPU; it is only read.
    unsafe { asm!("mov {}, gs:[0]", out(reg) own, options(nostack, readonly, preserves_flags)) };
    own
}
