//! Requests to other CPUs to give back the free blocks that each CPU keeps for itself.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::blocks;
use crate::backoff::Backoff;
use crate::interrupts::{self, Masked};
use crate::ops;

/// CPUs that may keep free memory, one bit each.
static KEEPING: AtomicU64 = AtomicU64::new(1);

/// CPUs that were requested to give back their free memory, one bit each.
static DRAIN_REQUESTED: AtomicU64 = AtomicU64::new(0);

/// Includes a secondary CPU in the requests from now on. Its interrupts are enabled.
pub(crate) fn join(cpu: u32) {
    KEEPING.fetch_or(1 << cpu, Relaxed);
}

/// Gives back the free memory of this CPU if another CPU has requested that. Called by the handler of the
/// reschedule IPI.
#[inline]
pub fn drain_if_requested(masked: &Masked) {
    let own = 1 << masked.cpu();
    if DRAIN_REQUESTED.load(Relaxed) & own != 0 {
        blocks::drain(masked);
        DRAIN_REQUESTED.fetch_and(!own, Release);
    }
}

/// Gives back the free memory that all CPUs keep. If interrupts are masked, gives back only the memory of
/// this CPU: otherwise two CPUs could wait for each other.
pub(in crate::memory) fn drain_all() {
    let can_wait = interrupts::are_unmasked();
    let masked = Masked::new();
    blocks::drain(&masked);
    if !can_wait {
        return;
    }
    let others = KEEPING.load(Relaxed) & !(1 << masked.cpu());
    DRAIN_REQUESTED.fetch_or(others, Release);
    for cpu in (0..u64::BITS).filter(|cpu| others & 1 << cpu != 0) {
        ops::smp().send_reschedule(cpu);
    }
    drop(masked);
    let mut waiting = others;
    let mut backoff = Backoff::default();
    // Does not wait again for a bit that was once clear: its CPU has given back its memory, even if another
    // CPU has set the bit again.
    while waiting != 0 {
        backoff.wait();
        waiting &= DRAIN_REQUESTED.load(Acquire);
    }
}
