//! Interrupts, and a mask for them that costs no privileged instruction.
//!
//! The processor's own interrupt flag stays set while programs and the kernel run. Masking counts up a number
//! that belongs to the CPU; an interrupt that arrives meanwhile is noted, and handled when the count is back at
//! zero. That is cheaper than `cli` and `sti`, and the same where the kernel has no right to those.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::arch::{cpu, local};
use crate::platform;

/// Masks interrupts on this CPU until [`unmask`] has been called as often.
#[inline]
pub fn mask() {
    let depth = &local::current().mask_depth;
    // A load and a store are enough: an interrupt in between leaves the count as it was.
    depth.store(depth.load(Relaxed) + 1, Relaxed);
    compiler_fence(Ordering::SeqCst);
}

/// Takes back one [`mask`], and handles what was noted if it was the last.
///
/// # Panics
///
/// If interrupts are not masked.
#[inline]
pub fn unmask() {
    compiler_fence(Ordering::SeqCst);
    let local = local::current();
    let depth = local.mask_depth.load(Relaxed);
    assert!(depth > 0, "interrupts are not masked");
    local.mask_depth.store(depth - 1, Relaxed);
    if depth == 1 && local.pending.load(Relaxed) != 0 {
        handle_pending();
    }
}

#[cold]
fn handle_pending() {
    let local = local::current();
    // The lines are handled as if masked: a lock that a handler takes and gives back must not come here again.
    local.mask_depth.store(1, Relaxed);
    loop {
        let lines = local.pending.swap(0, Relaxed);
        if lines == 0 {
            break;
        }
        for line in (0..u32::BITS).filter(|line| lines & 1 << line != 0) {
            handle(u8::try_from(line).unwrap_or_default());
        }
    }
    local.mask_depth.store(0, Relaxed);
    compiler_fence(Ordering::SeqCst);
    if local.pending.load(Relaxed) != 0 {
        handle_pending();
    }
}

fn handle(line: u8) {
    local::current().woken.store(true, Relaxed);
    platform::current().interrupt(line);
}

/// A line was raised; the processor's interrupt flag is clear.
pub(crate) fn raised(line: u8) {
    if !platform::current().acknowledge(line) {
        return;
    }
    let local = local::current();
    if local.mask_depth.load(Relaxed) == 0 {
        handle(line);
    } else {
        local.pending.fetch_or(1 << line, Relaxed);
    }
}

/// Lets interrupts in for the first time.
pub(crate) fn enable() {
    cpu::enable_interrupts();
    unmask();
}

/// Waits until an interrupt has been handled since the last call. May return for no reason.
///
/// # Panics
///
/// If interrupts are masked: the wait would never end.
pub fn wait() {
    let local = local::current();
    assert!(local.mask_depth.load(Relaxed) == 0, "waiting for a masked interrupt");
    cpu::wait_unless(|| local.woken.load(Relaxed));
    local.woken.store(false, Relaxed);
}
