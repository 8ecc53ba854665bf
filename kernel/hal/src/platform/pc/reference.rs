//! How fast the time-stamp counter is, where nobody says: measured against a counter whose rate is known.

use hermit_clock::LeastSquares;

use super::{hpet, pit};
use crate::arch::tsc;

/// Where nothing can be measured, a counter is taken for one of 1 GHz: time then passes at the wrong speed, but it passes.
const UNKNOWN: u64 = 1_000_000_000;

/// How long is measured: 1/200 of a second.
const PART: u64 = 200;

/// So many readings come after that: if the rest was interrupted, one alone would be as far off as a reading can be.
const LATE_READINGS: u32 = 32;

/// After so many readings a reference that has not got far is no reference.
const MOST_READINGS: u32 = 1_000_000;

/// A counter that counts up at a known rate.
pub(super) struct Reference<F> {
    /// Ticks per second.
    pub(super) frequency: u64,
    /// Reads it.
    pub(super) read: F,
}

/// Ticks of the time-stamp counter per second.
pub(super) fn measure_tsc() -> u64 {
    let by_pit = measure(&pit::start());
    let by_hpet = || hpet::find().and_then(|hpet| measure(&hpet));
    by_pit.or_else(by_hpet).unwrap_or(UNKNOWN)
}

fn measure(reference: &Reference<impl Fn() -> u64>) -> Option<u64> {
    // A counter may only start at its next tick.
    let before = (reference.read)();
    (0..MOST_READINGS).find(|_| (reference.read)() != before)?;
    let first = (reference.read)();
    let mut fit = LeastSquares::default();
    let mut fastest = u64::MAX;
    let mut late = 0;
    for _ in 0..MOST_READINGS {
        let before = tsc::now();
        let now = (reference.read)();
        let took = tsc::now() - before;
        fastest = fastest.min(took);
        // One that took long was interrupted, who knows when.
        if took >= 2 * fastest {
            continue;
        }
        fit.add(before + took / 2, now);
        late += u32::from(now.wrapping_sub(first) >= reference.frequency / PART);
        if late == LATE_READINGS {
            return fit.frequency(reference.frequency);
        }
    }
    None
}
