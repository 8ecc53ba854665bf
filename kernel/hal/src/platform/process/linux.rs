//! The system calls of Linux that a kernel in a process makes (`hermit_interface::process`), and no others.

use core::arch::asm;

use hermit_interface::process::{CALL, INTERRUPT, MEMORY, memory_offset};
use hermit_paging::Access;

use super::signals::{Action, AlternateStack};

/// Numbers of system calls (`arch/x86/entry/syscalls/syscall_64.tbl`).
mod number {
    pub(super) const WRITE: u64 = 1;
    pub(super) const MMAP: u64 = 9;
    pub(super) const MPROTECT: u64 = 10;
    pub(super) const MUNMAP: u64 = 11;
    pub(super) const SIGACTION: u64 = 13;
    pub(super) const SIGPROCMASK: u64 = 14;
    pub(super) const SCHED_YIELD: u64 = 24;
    pub(super) const SIGALTSTACK: u64 = 131;
    pub(super) const FUTEX: u64 = 202;
    pub(super) const TIMER_SETTIME: u64 = 223;
    pub(super) const TGKILL: u64 = 234;
}

/// Operations of `futex`, for memory that processes share.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;

/// The error that says that a time has passed.
const TIMED_OUT: i64 = -110;

/// Flags of `mmap`: in memory that processes share, at this address, with the pages there at once.
const SHARED: u64 = 0x01;
const FIXED: u64 = 0x10;
const POPULATE: u64 = 0x8000;

/// More than that is not filled at once: it may never be used.
const FILLED: u64 = 64 << 10;

/// Unblocks signals (`rt_sigprocmask`).
const UNBLOCK: u64 = 1;

/// The size of a set of signals in bytes.
const SIGNALS_SIZE: u64 = 8;

/// A system call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// Linux has no memory, or allows no more of something (`ENOMEM`).
    NoMemory,
    /// For another reason.
    Other,
}

/// That error.
const NO_MEMORY: i64 = -12;

/// The error that says that a signal was handled instead (`EINTR`).
const INTERRUPTED: i64 = -4;

/// Makes a system call; the result is negative if it failed.
///
/// # Safety
///
/// What the call does to memory must be sound.
#[inline]
unsafe fn call(number: u64, [first, second, third, fourth, fifth, sixth]: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the caller's promise; Linux keeps all other registers, and does not use the stack.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

const fn checked(result: i64) -> Result<(), Failed> {
    match result {
        0.. => Ok(()),
        NO_MEMORY => Err(Failed::NoMemory),
        _ => Err(Failed::Other),
    }
}

/// The bits of `mmap` and `mprotect` for an access: reading, writing, executing.
const fn bits(access: Access) -> u64 {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::Write => 1 | 2,
        Access::Execute | Access::WriteExecute => 1 | 4,
    }
}

/// Asks the hypervisor (`hermit_interface::process::CALL`).
pub(super) fn ask(arguments: [u64; 6]) -> u64 {
    loop {
        // SAFETY: the hypervisor changes no memory that it was not told of by a driver.
        let answer = unsafe { call(CALL, arguments) };
        // A signal that comes before the hypervisor has heard of the call ends it. No register's value looks like that.
        if answer != INTERRUPTED {
            return answer.cast_unsigned();
        }
    }
}

/// Maps physical memory; what is at the addresses already is replaced.
///
/// # Safety
///
/// The addresses must be those of page tables that map the same.
pub(super) unsafe fn map(address: u64, physical: u64, size: u64, access: Access) -> Result<(), Failed> {
    let populate = if size <= FILLED { POPULATE } else { 0 };
    let flags = SHARED | FIXED | populate;
    // SAFETY: the caller's promise.
    let result = unsafe {
        call(number::MMAP, [address, size, bits(access), flags, MEMORY.into(), memory_offset(physical)])
    };
    checked(result)
}

/// Unmaps addresses.
///
/// # Safety
///
/// Nothing may use them any more.
pub(super) unsafe fn unmap(address: u64, size: u64) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(number::MUNMAP, [address, size, 0, 0, 0, 0]) })
}

/// Changes what may be done with addresses.
///
/// # Safety
///
/// Nothing may use them in another way any more.
pub(super) unsafe fn protect(address: u64, size: u64, access: Access) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(number::MPROTECT, [address, size, bits(access), 0, 0, 0]) })
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The time was over.
    TimedOut,
    /// Anything else: the word was different, somebody woke us, a signal was handled.
    Other,
}

/// Waits while a word has a value, but not longer than so many nanoseconds.
pub(super) fn wait(word: &core::sync::atomic::AtomicU32, value: u32, most: Option<u64>) -> Wait {
    let time = most.map(|most| [most / 1_000_000_000, most % 1_000_000_000]);
    let time = time.as_ref().map_or(0, |time| time.as_ptr().addr() as u64);
    // SAFETY: Linux only reads the word and the time.
    let result =
        unsafe { call(number::FUTEX, [word.as_ptr().addr() as u64, FUTEX_WAIT, value.into(), time, 0, 0]) };
    if result == TIMED_OUT { Wait::TimedOut } else { Wait::Other }
}

/// Wakes a CPU that waits for a word.
pub(super) fn wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: Linux does not touch the word.
    let _: i64 = unsafe { call(number::FUTEX, [word.as_ptr().addr() as u64, FUTEX_WAKE, 1, 0, 0, 0]) };
}

/// Interrupts a thread of this process.
pub(super) fn interrupt(process: u32, thread: u32) {
    // SAFETY: the thread runs a handler, as after any other interrupt.
    let _: i64 = unsafe { call(number::TGKILL, [process.into(), thread.into(), INTERRUPT.into(), 0, 0, 0]) };
}

/// Has a timer expire after so many nanoseconds, which are not 0.
pub(super) fn set_timer(timer: u32, nanoseconds: u64) {
    let time = [0, 0, nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: Linux only reads the time.
    let _: i64 =
        unsafe { call(number::TIMER_SETTIME, [timer.into(), 0, time.as_ptr().addr() as u64, 0, 0, 0]) };
}

/// Lets another thread of the host run.
pub(super) fn yield_now() {
    // SAFETY: it changes nothing here.
    let _: i64 = unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

/// Adds one to an eventfd.
pub(super) fn signal(descriptor: u32) -> Result<(), Failed> {
    let one = 1_u64;
    // SAFETY: Linux only reads the number.
    checked(unsafe { call(number::WRITE, [descriptor.into(), (&raw const one).addr() as u64, 8, 0, 0, 0]) })
}

/// Says what happens on a signal.
///
/// # Safety
///
/// The handler must do no harm to the code that it interrupts.
pub(super) unsafe fn set_action(signal: u32, action: &Action) -> Result<(), Failed> {
    let action = (&raw const *action).addr() as u64;
    // SAFETY: the caller's promise.
    checked(unsafe { call(number::SIGACTION, [signal.into(), action, 0, SIGNALS_SIZE, 0, 0]) })
}

/// Says where this thread's signals are handled.
///
/// # Safety
///
/// The stack must be this thread's alone, for that alone.
pub(super) unsafe fn set_stack(stack: &AlternateStack) -> Result<(), Failed> {
    // SAFETY: the caller's promise.
    checked(unsafe { call(number::SIGALTSTACK, [(&raw const *stack).addr() as u64, 0, 0, 0, 0, 0]) })
}

/// Lets signals in.
pub(super) fn unblock(signals: u64) {
    let set = (&raw const signals).addr() as u64;
    // SAFETY: Linux only reads the set; handlers may run from now on.
    let _: i64 = unsafe { call(number::SIGPROCMASK, [UNBLOCK, set, 0, SIGNALS_SIZE, 0, 0]) };
}
