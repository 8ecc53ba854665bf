//! Threads that are started without std.

#![expect(unsafe_code, reason = "the kernel starts a thread with a number that is a pointer")]

use std::arch::asm;
use std::ptr;

use hermit_abi::Tid;

use super::calls::{self, Answer, answer};

/// Any CPU.
pub(crate) const ANY: isize = -1;

/// The priority of threads of std.
pub(crate) const NORMAL: u8 = 2;

type Work = Box<dyn FnOnce() + Send>;

extern "C" fn run(argument: usize) {
    // SAFETY: it comes from `prepare`, for this thread alone.
    let work = unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Work>(argument)) };
    work();
}

fn prepare(work: impl FnOnce() + Send + 'static) -> usize {
    Box::into_raw(Box::new(Box::new(work) as Work)).expose_provenance()
}

/// For a thread that was not started.
fn forget(argument: usize) {
    // SAFETY: it comes from `prepare`, and there is no thread that could use it.
    drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Work>(argument)) });
}

/// Starts a thread.
pub(crate) fn spawn(priority: u8, core: isize, work: impl FnOnce() + Send + 'static) -> Answer<Tid> {
    let argument = prepare(work);
    let mut id = 0;
    // SAFETY: there is place for the number, and what the thread does is `Send`.
    let result = answer(unsafe { hermit_abi::spawn(&raw mut id, run, argument, priority, core) });
    result.inspect_err(|_| forget(argument)).map(|_| id)
}

/// Starts a thread with such a stack.
pub(crate) fn spawn2(
    priority: u8,
    stack_size: usize,
    core: isize,
    work: impl FnOnce() + Send + 'static,
) -> Answer<Tid> {
    let argument = prepare(work);
    // SAFETY: what the thread does is `Send`.
    let id = unsafe { hermit_abi::spawn2(run, argument, priority, stack_size, core) };
    if id != 0 {
        return Ok(id);
    }
    let errno = calls::errno();
    forget(argument);
    Err(errno)
}

/// Tells CPUs apart: the address of what the kernel keeps for the CPU that runs this, which it finds through GS. The hardware's number
/// would not do: the CPU may be a thread of another system.
pub(crate) fn cpu() -> u64 {
    let own: u64;
    // SAFETY: the kernel has its own address there, on every CPU; it is only read.
    unsafe { asm!("mov {}, gs:[0]", out(reg) own, options(nostack, readonly, preserves_flags)) };
    own
}
