//! Measurement of how long a CPU's current thread has run, without reading the clock at each switch.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU64;

/// The run time of a CPU's current thread. Written with the run queue locked, or by the CPU itself.
#[derive(Debug)]
pub(crate) struct RunTime {
    /// Number of switches of the CPU, which wraps.
    switches: AtomicU64,
    /// Number of switches at the last stamp.
    stamped: AtomicU64,
    /// Time of the last stamp in nanoseconds.
    since: AtomicU64,
}

impl RunTime {
    pub(crate) fn new() -> Self {
        Self { switches: AtomicU64::new(0), stamped: AtomicU64::new(0), since: AtomicU64::new(0) }
    }

    /// Counts a switch.
    #[inline]
    pub(crate) fn count_switch(&self) {
        self.switches.store(self.switches.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Records that the current thread runs since the time `now`, in nanoseconds.
    pub(crate) fn stamp(&self, now: u64) {
        self.since.store(now, Relaxed);
        self.stamped.store(self.switches.load(Relaxed), Relaxed);
    }

    /// Returns the time since the last stamp, and stamps.
    pub(crate) fn take(&self, now: u64) -> u64 {
        let ran_ns = now.saturating_sub(self.since.load(Relaxed));
        self.stamp(now);
        ran_ns
    }

    /// Returns how long the current thread has run at least, in nanoseconds: 0 if the CPU has switched since the last stamp.
    /// Stamps in that case.
    pub(crate) fn at_least(&self, now: u64) -> u64 {
        if self.stamped.load(Relaxed) == self.switches.load(Relaxed) {
            return now.saturating_sub(self.since.load(Relaxed));
        }
        self.stamp(now);
        0
    }
}
