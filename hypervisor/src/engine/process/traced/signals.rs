//! Blocked and pending signals of a stopped thread.
#![expect(unsafe_code, reason = "nix lacks these ptrace requests")]

use std::mem::MaybeUninit;
use std::ptr;

use hermit_interface::process::{DEVICE, INTERRUPT, TIMER};
use libc::{PTRACE_GETSIGMASK, PTRACE_PEEKSIGINFO, PTRACE_SETSIGMASK, ptrace_peeksiginfo_args, siginfo_t};
use nix::Result;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Signals that are the guest's interrupts.
pub(super) const INTERRUPTS: u64 = bit(INTERRUPT) | bit(DEVICE) | bit(TIMER);

/// Size of a signal set in bytes.
const SET_SIZE: usize = size_of::<u64>();

/// Bit of a signal in a signal set.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Reads the signal mask of a stopped thread.
pub(super) fn mask(thread: Pid) -> Result<u64> {
    let mut signals = 0_u64;
    let size = ptr::without_provenance_mut::<libc::c_void>(SET_SIZE);
    // SAFETY: PTRACE_GETSIGMASK takes the set's size in place of an address, and writes that many bytes to the last
    // argument, a local variable of that size.
    let result = unsafe { libc::ptrace(PTRACE_GETSIGMASK, thread.as_raw(), size, &raw mut signals) };
    Errno::result(result).map(|_| signals)
}

/// Writes the signal mask of a stopped thread.
pub(super) fn set_mask(thread: Pid, signals: u64) -> Result<()> {
    let size = ptr::without_provenance_mut::<libc::c_void>(SET_SIZE);
    // SAFETY: PTRACE_SETSIGMASK takes the set's size in place of an address, and reads that many bytes from the last
    // argument, a local variable of that size.
    let result = unsafe { libc::ptrace(PTRACE_SETSIGMASK, thread.as_raw(), size, &raw const signals) };
    Errno::result(result).map(drop)
}

/// Returns whether a signal is pending for a stopped thread.
pub(super) fn is_pending(thread: Pid, signal: Signal) -> Result<bool> {
    for off in 0.. {
        let which = ptrace_peeksiginfo_args { off, flags: 0, nr: 1 };
        let mut found = MaybeUninit::<siginfo_t>::uninit();
        // SAFETY: PTRACE_PEEKSIGINFO reads its arguments from the local `which`, and writes at most `which.nr`, that is
        // one, `siginfo_t` to the local `found`.
        let count = unsafe {
            libc::ptrace(PTRACE_PEEKSIGINFO, thread.as_raw(), &raw const which, found.as_mut_ptr())
        };
        if Errno::result(count)? == 0 {
            break;
        }
        // SAFETY: the request returns the number of entries that it has written; it is neither negative, an error, nor
        // 0.
        if unsafe { found.assume_init() }.si_signo == signal as i32 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Computes the signal mask after a single step during which interrupts were blocked: `before` is the mask without that
/// block, `now` the one after the step.
pub(super) const fn mask_after_step(before: u64, now: u64) -> u64 {
    // The only instruction that blocks interrupts is the return from a handler, during which all of them are blocked
    // before.
    now & !(INTERRUPTS & !before)
}

#[cfg(test)]
mod tests {
    use super::{INTERRUPTS, bit, mask_after_step};

    #[test]
    fn interrupts_are_sigusr1_sigusr2_and_sigalrm() {
        assert_eq!(INTERRUPTS, 0x2a00);
    }

    #[test]
    fn mask_after_step_keeps_the_changes_by_the_thread() {
        let (usual, other) = (bit(1), bit(2));
        assert_eq!(mask_after_step(usual, usual | INTERRUPTS), usual);
        assert_eq!(mask_after_step(usual | bit(10), usual | INTERRUPTS), usual | bit(10));
        // The instruction unblocks a signal, or blocks another one, or returns from a handler.
        assert_eq!(mask_after_step(INTERRUPTS, INTERRUPTS & !bit(12)), INTERRUPTS & !bit(12));
        assert_eq!(mask_after_step(usual, other | INTERRUPTS), other);
        assert_eq!(mask_after_step(INTERRUPTS | usual, usual), usual);
    }
}
