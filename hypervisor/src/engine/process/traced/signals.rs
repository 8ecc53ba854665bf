//! Blocked and pending signals of a stopped thread.

use hermit_interface::process::{DEVICE, INTERRUPT, TIMER};
use nix::Result;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::requests;

/// Set of the signals that serve as interrupts of the guest.
pub(super) const INTERRUPTS: u64 = bit(INTERRUPT) | bit(DEVICE) | bit(TIMER);

/// Bit of a signal in a signal set.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Returns true if a signal is pending for a stopped thread.
pub(super) fn is_pending(thread: Pid, signal: Signal) -> Result<bool> {
    for index in 0.. {
        match requests::pending_signal(thread, index)? {
            Some(pending) if pending == signal as i32 => return Ok(true),
            Some(_) => {}
            None => break,
        }
    }
    Ok(false)
}

/// Returns the signal mask to restore after a single step during which the tracer has blocked interrupts.
/// `before` is the mask before the tracer blocked them, `now` is the mask after the step.
pub(super) const fn mask_after_step(before: u64, now: u64) -> u64 {
    // Interrupts that were not blocked before were blocked only by the tracer, so they are unblocked. The
    // step itself cannot have blocked them: only the return from a handler changes the mask, and in a handler
    // all interrupts are blocked.
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
