//! Signals of a stopped thread: those that it does not take for now, and those that wait for it.
#![expect(unsafe_code, reason = "requests to the host's kernel with pointers")]

use std::mem::MaybeUninit;
use std::ptr;

use hermit_interface::process::{DEVICE, INTERRUPT, TIMER};
use libc::{PTRACE_GETSIGMASK, PTRACE_PEEKSIGINFO, PTRACE_SETSIGMASK, ptrace_peeksiginfo_args, siginfo_t};
use nix::Result;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// The signals that are interrupts.
pub(super) const INTERRUPTS: u64 = bit(INTERRUPT) | bit(DEVICE) | bit(TIMER);

/// The size of a set of signals.
const SIZE: usize = size_of::<u64>();

/// A signal's bit in a set.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// What a stopped thread does not take.
pub(super) fn blocked(thread: Pid) -> Result<u64> {
    let mut signals = 0_u64;
    let size = ptr::without_provenance_mut::<libc::c_void>(SIZE);
    // SAFETY: the request writes a set of that size.
    let result = unsafe { libc::ptrace(PTRACE_GETSIGMASK, thread.as_raw(), size, &raw mut signals) };
    Errno::result(result).map(|_| signals)
}

/// From now on a stopped thread does not take these.
pub(super) fn set_blocked(thread: Pid, signals: u64) -> Result<()> {
    let size = ptr::without_provenance_mut::<libc::c_void>(SIZE);
    // SAFETY: the request reads a set of that size.
    let result = unsafe { libc::ptrace(PTRACE_SETSIGMASK, thread.as_raw(), size, &raw const signals) };
    Errno::result(result).map(drop)
}

/// Whether this signal waits for a stopped thread.
pub(super) fn is_pending(thread: Pid, signal: Signal) -> Result<bool> {
    for off in 0.. {
        let which = ptrace_peeksiginfo_args { off, flags: 0, nr: 1 };
        let mut found = MaybeUninit::<siginfo_t>::uninit();
        // SAFETY: the request reads what is asked for, and writes as much of `found` as it says, one or none.
        let count = unsafe {
            libc::ptrace(PTRACE_PEEKSIGINFO, thread.as_raw(), &raw const which, found.as_mut_ptr())
        };
        if Errno::result(count)? == 0 {
            break;
        }
        // SAFETY: the request has written it.
        if unsafe { found.assume_init() }.si_signo == signal as i32 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a thread wants not to take that did not take interrupts, either, for one instruction: `before` is what it wanted before,
/// `now` what there is now.
pub(super) const fn wanted(before: u64, now: u64) -> u64 {
    // An instruction that has them blocked, the end of a handler, begins with all of them blocked.
    now & !(INTERRUPTS & !before)
}

#[cfg(test)]
mod tests {
    use super::{INTERRUPTS, bit, wanted};

    #[test]
    fn interrupts_are_sigusr1_sigusr2_and_sigalrm() {
        assert_eq!(INTERRUPTS, 0x2a00);
    }

    #[test]
    fn a_step_leaves_what_the_thread_wants() {
        let (usual, other) = (bit(1), bit(2));
        assert_eq!(wanted(usual, usual | INTERRUPTS), usual);
        assert_eq!(wanted(usual | bit(10), usual | INTERRUPTS), usual | bit(10));
        // The instruction unblocks one, or another one; or it ends a handler.
        assert_eq!(wanted(INTERRUPTS, INTERRUPTS & !bit(12)), INTERRUPTS & !bit(12));
        assert_eq!(wanted(usual, other | INTERRUPTS), other);
        assert_eq!(wanted(INTERRUPTS | usual, usual), usual);
    }
}
