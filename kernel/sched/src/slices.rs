//! Lengths of time slices, and the choice of slices at whose ends a thread moves to another CPU.

use core::sync::atomic::Ordering::Relaxed;

use hermit_base::sync::atomic::{AtomicU32, AtomicU64};

/// Least length of a slice, in multiples of the time that its end takes.
const SLICE_PER_COST: u64 = 32;

/// Least rise of the recorded time that the end of a slice takes, in nanoseconds.
const MIN_COST_RISE_NS: u64 = 1_000;

/// Greatest length of a slice, in multiples of its length on a fast CPU.
const MAX_STRETCH: u64 = 4;

/// Number of slices after which a CPU gives a thread to a CPU that has one ready thread fewer. It is odd, so
/// that of two threads that alternate, a different one moves each time.
pub(crate) const ROTATION: u32 = 15;

/// The time slices of a CPU.
#[derive(Debug)]
pub(crate) struct Slices {
    /// Estimate of the minimum time that the end of a slice takes, in nanoseconds.
    cost_ns: AtomicU64,
    /// Number of slices at whose ends threads were ready, which wraps. Only this CPU accesses it.
    ended: AtomicU32,
}

impl Slices {
    pub(crate) fn new() -> Self {
        Self { cost_ns: AtomicU64::new(0), ended: AtomicU32::new(0) }
    }

    /// Records that the scheduler has taken `cost_ns` nanoseconds to end a slice.
    ///
    /// A measured cost may be too high because the host has stopped the CPU meanwhile. So the recorded cost
    /// falls at once, but rises only by an eighth at a time.
    pub(crate) fn record_cost(&self, cost_ns: u64) {
        let cost = self.cost_ns.load(Relaxed);
        self.cost_ns.store(cost_ns.min(cost + cost / 8 + MIN_COST_RISE_NS), Relaxed);
    }

    /// Length of a slice that is `length` nanoseconds long on a fast CPU. On a slow CPU the slice is longer,
    /// so that the ends of slices do not take most of the time.
    pub(crate) fn stretched(&self, length: u64) -> u64 {
        let least = self.cost_ns.load(Relaxed).saturating_mul(SLICE_PER_COST);
        length.max(least).min(MAX_STRETCH * length)
    }

    /// Counts a slice at whose end threads are ready. Returns true for one in [`ROTATION`] slices.
    pub(crate) fn is_turn_to_rotate(&self) -> bool {
        let ended = self.ended.load(Relaxed).wrapping_add(1);
        self.ended.store(ended, Relaxed);
        ended.is_multiple_of(ROTATION)
    }
}
