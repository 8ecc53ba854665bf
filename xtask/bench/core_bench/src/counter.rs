//! Measurements with the time-stamp counter.

use std::hint;
use std::time::{Duration, Instant};

/// Number of rounds. The result is their median, so a timer interrupt in one round has no effect.
const ROUNDS: usize = 5;

/// Number of iterations of the calibration loop.
const CALIBRATION: u64 = 5_000_000;

/// Duration for which the counter is compared with the clock.
const COMPARISON: Duration = Duration::from_millis(50);

/// Reads the time-stamp counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no memory effects; CR4.TSD, which would forbid
    // it, is clear on Linux and in the kernel.
    #[expect(unsafe_code, reason = "std has no safe function for the counter")]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

/// Returns the ticks per instruction, measured with a loop of two instructions in assembly.
pub(crate) fn ticks_per_instruction() -> f64 {
    let start = ticks();
    // SAFETY: the loop counts its own register down to zero and touches nothing else but the flags.
    #[expect(unsafe_code, reason = "only assembly has a known number of instructions")]
    unsafe {
        std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) CALIBRATION => _, options(nomem, nostack));
    }
    per(ticks() - start, 2 * CALIBRATION)
}

/// Returns the ticks of the counter per nanosecond.
pub(crate) fn ticks_per_nanosecond() -> f64 {
    let (clock, start) = (Instant::now(), ticks());
    while clock.elapsed() < COMPARISON {
        hint::spin_loop();
    }
    let count = ticks() - start;
    per(count, u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the ticks of one call of `operation`, including the two instructions of the loop around it.
pub(crate) fn time(count: u64, mut operation: impl FnMut()) -> f64 {
    // The first call is not measured, because it may map memory and initialise thread-local values.
    operation();
    rounds(|| {
        let start = ticks();
        for _ in 0..hint::black_box(count) {
            operation();
        }
        per(ticks() - start, count)
    })
}

/// Returns the median of [`ROUNDS`] rounds.
pub(crate) fn rounds(round: impl FnMut() -> f64) -> f64 {
    let mut rounds: Vec<f64> = std::iter::repeat_with(round).take(ROUNDS).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Returns `ticks` divided by `count`.
#[expect(clippy::cast_precision_loss, reason = "53 bits count instructions for months")]
pub(crate) fn per(ticks: u64, count: u64) -> f64 {
    ticks as f64 / count as f64
}
