//! The system calls of Linux that the kernel makes in a process.
//!
//! The process runs under a seccomp filter that allows only the system calls of `hermit_interface::process`.
//! This file has the functions for these calls. There is no C library: the functions use the SYSCALL
//! instruction. Hypercalls to uhyve are system calls, too, with a number that Linux does not have
//! ([`call_uhyve`]).

use core::arch::asm;
use core::sync::atomic::AtomicU32;

use hermit_interface::process::{CALL, INTERRUPT, MEMORY, memory_offset};
use hermit_paging::Access;

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

/// Operations of `futex`, without `FUTEX_PRIVATE_FLAG`: uhyve shares the memory.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;

/// Results of system calls that fail: negated error numbers.
const ETIMEDOUT: i64 = -110;
const ENOMEM: i64 = -12;
const EINTR: i64 = -4;

/// Flags of `mmap`.
const MAP_SHARED: u64 = 0x01;
const MAP_FIXED: u64 = 0x10;
const MAP_POPULATE: u64 = 0x8000;

/// Maximum size in bytes of a mapping whose pages Linux allocates at once. Many pages of a larger mapping may
/// never be used.
const MAX_POPULATED: u64 = 64 << 10;

/// `SIG_UNBLOCK` of `rt_sigprocmask`.
const SIG_UNBLOCK: u64 = 1;

/// Size of a signal set in bytes.
const SIGNAL_SET_SIZE: u64 = 8;

/// Kind of error of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinuxError {
    /// Linux has no memory, or a limit is reached (`ENOMEM`).
    NoMemory,
    /// Another error.
    Other,
}

/// Makes a system call. The result is negative if the call failed.
///
/// # Safety
///
/// With these arguments the call must change no memory and no mapping that Rust code relies on.
#[inline]
unsafe fn call(number: u64, [first, second, third, fourth, fifth, sixth]: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the call changes nothing that Rust code relies on (contract). According to its ABI, Linux
    // changes RAX, RCX and R11, keeps all other registers, and does not write to the stack.
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

const fn checked(result: i64) -> Result<(), LinuxError> {
    match result {
        0.. => Ok(()),
        ENOMEM => Err(LinuxError::NoMemory),
        _ => Err(LinuxError::Other),
    }
}

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC` for an access.
const fn protection(access: Access) -> u64 {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::Write => 1 | 2,
        Access::Execute | Access::WriteExecute => 1 | 4,
    }
}

/// Makes a call of uhyve (`hermit_interface::process::CALL`).
pub(super) fn call_uhyve(arguments: [u64; 6]) -> u64 {
    loop {
        // SAFETY: uhyve reads or writes registers of a device, prints, or discards memory that the kernel
        // returns. A device writes only to memory that its driver has given it for this. Only
        // `Mmu::return_memory` returns memory, which nothing uses (its contract).
        let result = unsafe { call(CALL, arguments) };
        // A signal that arrives before uhyve has seen the call interrupts the call, so it is repeated. The
        // value of a register has 32 bits, so it cannot equal `EINTR`.
        if result != EINTR {
            return result.cast_unsigned();
        }
    }
}

/// Maps physical memory at addresses. Replaces any mappings that the addresses have.
///
/// # Safety
///
/// The page tables must map these addresses to this memory with this access, or the addresses must be
/// reserved and the access be [`Access::None`].
pub(super) unsafe fn map(address: u64, physical: u64, size: u64, access: Access) -> Result<(), LinuxError> {
    let populate = if size <= MAX_POPULATED { MAP_POPULATE } else { 0 };
    let flags = MAP_SHARED | MAP_FIXED | populate;
    // SAFETY: afterwards, the addresses are mapped to the memory that the page tables say (contract), and
    // `crate::memory` decides by the page tables which code uses the addresses.
    let result = unsafe {
        call(number::MMAP, [address, size, protection(access), flags, MEMORY.into(), memory_offset(physical)])
    };
    checked(result)
}

/// Unmaps addresses.
///
/// # Safety
///
/// Nothing may use the addresses any more.
pub(super) unsafe fn unmap(address: u64, size: u64) -> Result<(), LinuxError> {
    // SAFETY: the addresses are not used any more (contract), and `munmap` changes no others.
    checked(unsafe { call(number::MUNMAP, [address, size, 0, 0, 0, 0]) })
}

/// Changes the access to mapped addresses.
///
/// # Safety
///
/// Nothing may access the addresses in another way any more.
pub(super) unsafe fn protect(address: u64, size: u64, access: Access) -> Result<(), LinuxError> {
    // SAFETY: all accesses from here on are of the kind that stays allowed (contract), and `mprotect` changes
    // no contents.
    checked(unsafe { call(number::MPROTECT, [address, size, protection(access), 0, 0, 0]) })
}

/// `struct timespec` of a duration in nanoseconds.
const fn timespec(duration_ns: u64) -> [u64; 2] {
    [duration_ns / 1_000_000_000, duration_ns % 1_000_000_000]
}

/// Reason why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The timeout has expired.
    TimedOut,
    /// The word had another value, the thread was woken, or a signal was handled.
    Other,
}

/// Waits while a word has a value, until the thread is woken or the timeout expires (`FUTEX_WAIT`).
pub(super) fn wait(word: &AtomicU32, value: u32, timeout_ns: Option<u64>) -> Wait {
    let time = timeout_ns.map(timespec);
    let time = time.as_ref().map_or(0, |time| time.as_ptr().addr() as u64);
    // SAFETY: Linux only reads the word and the time, which live until the call returns.
    let result =
        unsafe { call(number::FUTEX, [word.as_ptr().addr() as u64, FUTEX_WAIT, value.into(), time, 0, 0]) };
    if result == ETIMEDOUT { Wait::TimedOut } else { Wait::Other }
}

/// Wakes one thread that waits for a word (`FUTEX_WAKE`).
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: Linux only uses the address of the word.
    let _: i64 = unsafe { call(number::FUTEX, [word.as_ptr().addr() as u64, FUTEX_WAKE, 1, 0, 0, 0]) };
}

/// Sends the signal of an inter-processor interrupt to a thread of this process.
pub(super) fn interrupt(process: u32, thread: u32) {
    // SAFETY: the thread runs the handler that `signals::handle` has installed, which is sound between any
    // two instructions.
    let _: i64 = unsafe { call(number::TGKILL, [process.into(), thread.into(), INTERRUPT.into(), 0, 0, 0]) };
}

/// Sets a one-shot timer to expire in `timeout_ns`, which is not 0.
pub(super) fn set_timer(timer: u32, timeout_ns: u64) {
    let [seconds, nanoseconds] = timespec(timeout_ns);
    let time = [0, 0, seconds, nanoseconds];
    // SAFETY: Linux only reads the time, which lives until the call returns.
    let _: i64 =
        unsafe { call(number::TIMER_SETTIME, [timer.into(), 0, time.as_ptr().addr() as u64, 0, 0, 0]) };
}

/// Yields the host's processor.
pub(super) fn yield_now() {
    // SAFETY: `sched_yield` changes no memory.
    let _: i64 = unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

/// Adds one to an eventfd.
pub(super) fn signal_eventfd(descriptor: u32) -> Result<(), LinuxError> {
    let one = 1_u64;
    // SAFETY: Linux only reads the number, which lives until the call returns.
    checked(unsafe { call(number::WRITE, [descriptor.into(), (&raw const one).addr() as u64, 8, 0, 0, 0]) })
}

/// Action of a signal (`struct sigaction` of `rt_sigaction`).
#[derive(Debug)]
#[repr(C)]
pub(super) struct Sigaction {
    pub(super) handler: u64,
    pub(super) flags: u64,
    pub(super) restorer: u64,
    pub(super) blocked: u64,
}

/// Alternate stack of a thread (`stack_t`).
#[derive(Debug)]
#[repr(C)]
pub(super) struct SignalStack {
    pub(super) start: u64,
    pub(super) flags: u64,
    pub(super) size: u64,
}

/// Sets the action of a signal.
///
/// # Safety
///
/// The handler must be sound between any two instructions of the code that it interrupts.
pub(super) unsafe fn set_action(signal: u32, action: &Sigaction) -> Result<(), LinuxError> {
    let action = (&raw const *action).addr() as u64;
    // SAFETY: Linux only reads the action. The handler that it calls from now on is sound wherever it
    // interrupts (contract).
    checked(unsafe { call(number::SIGACTION, [signal.into(), action, 0, SIGNAL_SET_SIZE, 0, 0]) })
}

/// Sets the alternate stack of this thread.
///
/// # Safety
///
/// The stack must be mapped memory that nothing else uses.
pub(super) unsafe fn set_stack(stack: &SignalStack) -> Result<(), LinuxError> {
    // SAFETY: Linux only reads the description. It writes signal frames to the stack, which nothing else uses
    // (contract).
    checked(unsafe { call(number::SIGALTSTACK, [(&raw const *stack).addr() as u64, 0, 0, 0, 0, 0]) })
}

/// Unblocks signals of this thread.
pub(super) fn unblock(signals: u64) {
    let set = (&raw const signals).addr() as u64;
    // SAFETY: Linux only reads the set, which lives until the call returns. The handlers that may run from
    // now on are sound wherever they interrupt (contract of `set_action`).
    let _: i64 = unsafe { call(number::SIGPROCMASK, [SIG_UNBLOCK, set, 0, SIGNAL_SET_SIZE, 0, 0]) };
}
