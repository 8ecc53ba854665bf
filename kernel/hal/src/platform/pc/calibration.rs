//! Measures the frequency of the time-stamp counter against a counter of known frequency.

use hermit_clock::LeastSquares;

use crate::arch::counter;

/// Number of measurements that would fit into a second: each takes 5 ms.
const MEASUREMENTS_PER_SECOND: u64 = 200;

/// Number of readings at the end of the measurement. Several are needed, since a hypervisor may interrupt a
/// single reading, which is then wrong by the length of the interruption.
const LATE_READINGS: u32 = 32;

/// Maximum number of readings until the reference has advanced far enough.
const MAX_READINGS: u32 = 1_000_000;

/// A counter that counts up at a known frequency.
pub(super) struct Reference<F> {
    /// Ticks per second.
    pub(super) frequency: u64,
    /// Reads the counter.
    pub(super) read: F,
}

/// Measures and returns the ticks of the time-stamp counter per second. Returns `None` if the reference does
/// not advance.
pub(super) fn measure(reference: &Reference<impl Fn() -> u64>) -> Option<u64> {
    // A counter may start late, so this first waits until the reference ticks.
    let before = (reference.read)();
    (0..MAX_READINGS).find(|_| (reference.read)() != before)?;
    let first = (reference.read)();
    let mut fit = LeastSquares::default();
    let mut fastest = u64::MAX;
    let mut late = 0;
    for _ in 0..MAX_READINGS {
        let before = counter::now();
        let now = (reference.read)();
        let took = counter::now() - before;
        fastest = fastest.min(took);
        // Ignores a reading that took long: it was interrupted at an unknown point.
        if took >= 2 * fastest {
            continue;
        }
        fit.add(before + took / 2, now);
        late += u32::from(now.wrapping_sub(first) >= reference.frequency / MEASUREMENTS_PER_SECOND);
        if late == LATE_READINGS {
            return fit.frequency(reference.frequency);
        }
    }
    None
}
