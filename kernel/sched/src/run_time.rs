//! Measures how long a CPU's current thread has run, without reading the clock at each switch.

use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::atomic::AtomicCell;
use hermit_base::sync::atomic::AtomicU64;

use crate::list::is;

/// Maximum number of switches during a probe if the current thread computes. Interrupts and short runs of
/// other threads cause these switches. Threads that only wake each other switch hundreds of times.
const MAX_PROBE_SWITCHES: u64 = 32;

/// The run time of a CPU's current thread. Written with the run queue locked, or by the CPU itself.
#[derive(Debug)]
pub(crate) struct RunTime<T: 'static> {
    /// Number of switches of the CPU, which wraps.
    switches: AtomicU64,
    /// Number of switches at the last stamp.
    stamped: AtomicU64,
    /// Time of the last stamp in nanoseconds.
    since: AtomicU64,
    /// Current thread at the start of the probe; `None` if there is none.
    probed: AtomicCell<Option<&'static T>>,
    /// Number of switches at the start of the probe.
    probe_switches: AtomicU64,
}

impl<T> RunTime<T> {
    pub(crate) fn new() -> Self {
        Self {
            switches: AtomicU64::new(0),
            stamped: AtomicU64::new(0),
            since: AtomicU64::new(0),
            probed: AtomicCell::new(None),
            probe_switches: AtomicU64::new(0),
        }
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

    /// Time since the last stamp.
    pub(crate) fn since_stamp(&self, now: u64) -> u64 {
        now.saturating_sub(self.since.load(Relaxed))
    }

    /// Returns the time since the last stamp, and stamps.
    pub(crate) fn take(&self, now: u64) -> u64 {
        let ran_ns = self.since_stamp(now);
        self.stamp(now);
        ran_ns
    }

    /// Minimum time for which the current thread has run, in nanoseconds. If the CPU has switched since the
    /// last stamp, stamps again and returns 0.
    pub(crate) fn at_least(&self, now: u64) -> u64 {
        if self.stamped.load(Relaxed) == self.switches.load(Relaxed) {
            return self.since_stamp(now);
        }
        self.stamp(now);
        0
    }

    /// Begins a probe: a short slice. If the current thread still runs at its end, the thread computes.
    pub(crate) fn begin_probe(&self, current: &'static T) {
        self.probed.store(Some(current));
        self.probe_switches.store(self.switches.load(Relaxed), Relaxed);
    }

    /// True during a probe.
    pub(crate) fn is_probe(&self) -> bool {
        self.probed.load().is_some()
    }

    /// Ends the probe, if there is one. Returns true if the current thread computes.
    pub(crate) fn end_probe(&self, current: &'static T) -> bool {
        let switches = self.switches.load(Relaxed).wrapping_sub(self.probe_switches.load(Relaxed));
        let is_same = is(self.probed.swap(None), current);
        is_same && switches <= MAX_PROBE_SWITCHES
    }
}
