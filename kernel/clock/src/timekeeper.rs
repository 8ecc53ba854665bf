//! Monotonic time of a counter, whose frequency is corrected now and then.
//!
//! Time is a linear function of the counter. It has a multiplier, and a base: the value of the counter at
//! which the time is 0. A correction stores a function with another multiplier in a free entry, and publishes
//! it by a single store. So a reader always loads a multiplier and a base that belong together.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::TickScale;

/// Number of functions that are kept. A reader first loads the index of the current function, and then the
/// function's values. Between these two loads, the reader must not be interrupted for so long that all
/// functions are replaced.
const FUNCTIONS: usize = 16;

/// Index of the function of a clock that does not run.
const STOPPED: usize = 0;

/// Index of the function of a clock that has been started.
const STARTED: usize = 1;

/// Maximum time by which a correction and a reading may overlap, as a divisor of a second. A reader may read
/// the counter this long before it loads the new function. Other CPUs may use the previous function for this
/// long after the correction.
const MARGIN_DIVISOR: u64 = 10;

/// Maximum deviation of a corrected frequency from the first one, as a divisor: 500 ppm.
const MAX_CORRECTION_DIVISOR: u64 = 2_000;

/// A linear function of a counter.
#[derive(Debug)]
pub struct TimeFunction {
    /// Multiplier of [`TickScale::scaled`]; 0 for the function of a clock that does not run.
    multiplier: AtomicU64,
    /// Value of the counter at which the time is 0.
    base: AtomicU64,
}

impl TimeFunction {
    /// The function of a clock that does not run.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is part of a static")]
    pub const fn new() -> Self {
        Self { multiplier: AtomicU64::new(0), base: AtomicU64::new(0) }
    }

    /// Nanoseconds at a value of the counter, which was read before the function was loaded; `None` if the
    /// clock does not run.
    #[inline]
    #[must_use]
    pub fn nanoseconds(&self, counter: u64) -> Option<u64> {
        let (multiplier, base) = self.load();
        (multiplier != 0).then(|| TickScale::scaled(counter.wrapping_sub(base), multiplier))
    }

    /// The multiplier and the base.
    #[inline]
    fn load(&self) -> (u64, u64) {
        (self.multiplier.load(Relaxed), self.base.load(Relaxed))
    }

    /// Replaces the function, which must not be in use.
    fn store(&self, base: u64, multiplier: u64) {
        self.base.store(base, Relaxed);
        self.multiplier.store(multiplier, Relaxed);
    }
}

/// Monotonic clock of a counter.
#[derive(Debug)]
pub struct Timekeeper {
    /// Index of the function in use.
    current: AtomicUsize,
    functions: [TimeFunction; FUNCTIONS],
    /// The first multiplier.
    nominal: AtomicU64,
}

impl Timekeeper {
    /// A clock that does not run.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a static")]
    pub const fn new() -> Self {
        Self {
            current: AtomicUsize::new(STOPPED),
            functions: [const { TimeFunction::new() }; FUNCTIONS],
            nominal: AtomicU64::new(0),
        }
    }

    /// The function in use.
    #[must_use]
    pub fn function(&self) -> &TimeFunction {
        &self.functions[self.current.load(Acquire)]
    }

    /// Starts the clock. Its time is 0 at the counter's value `base`. If several CPUs call this, they must
    /// pass the same arguments.
    pub fn start(&self, base: u64, scale: TickScale) {
        if self.current.load(Relaxed) == STOPPED {
            self.nominal.store(scale.multiplier(), Relaxed);
            self.functions[STARTED].store(base, scale.multiplier());
            // A CPU that arrives here late must not undo a correction, so this exchanges the index only if
            // the clock is still stopped.
            let _is_first = self.current.compare_exchange(STOPPED, STARTED, Release, Relaxed).is_ok();
        }
    }

    /// Stops the clock, because the counter can no longer be used.
    pub fn stop(&self) {
        self.current.store(STOPPED, Release);
    }

    /// Corrects the frequency, in Hz. `counter` is the value of the counter, which the caller has just read.
    /// The caller must exclude concurrent corrections. Returns true if the frequency is plausible, that is
    /// within 500 ppm of the first one; otherwise nothing changes.
    ///
    /// The clock must not go back. So the new function is set ahead, by the amount by which the two functions
    /// diverge in 100 ms: at most 100 µs, and 2 µs for 20 ppm. If the clock becomes slower, this covers the
    /// next 100 ms, in which other CPUs may still use the previous function. If the clock becomes faster,
    /// this covers the last 100 ms: a thread may have read the counter in that time, and convert the reading
    /// with the new function.
    pub fn correct(&self, counter: u64, frequency: u64) -> bool {
        let (index, nominal) = (self.current.load(Relaxed), self.nominal.load(Relaxed));
        if index == STOPPED {
            return false;
        }
        let (multiplier, base) = self.functions[index].load();
        let corrected = TickScale::new(frequency).multiplier();
        if corrected.abs_diff(nominal) > nominal / MAX_CORRECTION_DIVISOR || corrected == 0 {
            return false;
        }
        let margin = frequency / MARGIN_DIVISOR;
        let meeting = if corrected < multiplier {
            counter.wrapping_add(margin)
        } else {
            counter.wrapping_sub(margin.min(counter.wrapping_sub(base)))
        };
        // At the meeting point both functions have the same value, rounded up for the new one.
        let elapsed = u128::from(meeting.wrapping_sub(base)) * u128::from(multiplier);
        #[expect(clippy::cast_possible_truncation, reason = "the multipliers differ by 0.1 % at most")]
        let ticks = elapsed.div_ceil(u128::from(corrected)) as u64;
        let next = if index + 1 < FUNCTIONS { index + 1 } else { STARTED };
        self.functions[next].store(meeting.wrapping_sub(ticks), corrected);
        self.current.store(next, Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Timekeeper};
    use crate::{NANOSECONDS, TickScale};
    use proptest::collection::vec;
    use proptest::{prop_assert, proptest};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    const GHZ: u64 = 1_000_000_000;

    fn started(base: u64, frequency: u64) -> Timekeeper {
        let clock = Timekeeper::new();
        clock.start(base, TickScale::new(frequency));
        clock
    }

    #[test]
    fn clock_runs_from_start_to_stop() {
        let clock = Timekeeper::new();
        assert_eq!(clock.function().nanoseconds(7), None);
        assert!(!clock.correct(7, GHZ));
        clock.start(5, TickScale::new(GHZ));
        // If another CPU starts the clock, too, nothing changes.
        assert!(clock.correct(5, GHZ));
        clock.start(5, TickScale::new(GHZ));
        assert_eq!(clock.function().nanoseconds(7), Some(2));
        clock.stop();
        assert_eq!(clock.function().nanoseconds(7), None);
    }

    #[test]
    fn implausible_frequency_is_ignored() {
        let clock = started(0, GHZ);
        for frequency in [0, GHZ / 2, GHZ - GHZ / 1_900, GHZ + GHZ / 1_900, 2 * GHZ, u64::MAX / 2] {
            assert!(!clock.correct(GHZ, frequency), "{frequency}");
        }
        assert_eq!(clock.function().nanoseconds(3 * GHZ), Some(3 * NANOSECONDS));
    }

    #[test]
    fn corrections_do_not_add_up_beyond_the_limit() {
        let clock = started(0, GHZ);
        assert!(clock.correct(GHZ, GHZ + 400_000));
        assert!(!clock.correct(2 * GHZ, GHZ + 800_000));
    }

    #[test]
    fn corrected_clock_has_the_new_rate() {
        let clock = started(0, GHZ);
        assert!(clock.correct(GHZ, GHZ + 20_000));
        // The slower clock meets the previous one in 100 ms, so it is 2 µs ahead now.
        assert_eq!(clock.function().nanoseconds(GHZ), Some(NANOSECONDS + 2_000));
        let (start, end) = (
            clock.function().nanoseconds(2 * GHZ).unwrap(),
            clock.function().nanoseconds(3 * GHZ + 20_000).unwrap(),
        );
        assert!((end - start).abs_diff(NANOSECONDS) <= 1);
        assert!(clock.correct(3 * GHZ, GHZ - 20_000));
        let faster = clock.function().nanoseconds(4 * GHZ - 20_000).unwrap()
            - clock.function().nanoseconds(3 * GHZ).unwrap();
        assert!(faster.abs_diff(NANOSECONDS) <= 1);
    }

    proptest! {
        /// After any corrections, a reading is not before an earlier one, even if the earlier one used the
        /// previous function within the margin. The clock steps forward by 100 µs at most.
        #[test]
        fn corrections_never_step_back(
            base: u64,
            frequency in 1_000_000_000..6_000_000_000_u64,
            corrections in vec((-499_i64..=499, 0..7_200_000_000_000_u64), 1..3 * FUNCTIONS),
        ) {
            let clock = started(base, frequency);
            let mut counter = base;
            for (ppm, wait) in corrections {
                counter = counter.wrapping_add(wait);
                let last = |late: u64| clock.function().nanoseconds(counter.wrapping_add(late)).unwrap();
                let lates = [0, frequency / 1_000, frequency / 11];
                let before = lates.map(last);
                let to = frequency.strict_add_signed(ppm * i64::try_from(frequency).unwrap() / 1_000_000);
                prop_assert!(clock.correct(counter, to));
                let differences = lates.map(last).into_iter().zip(before).zip(lates);
                // A step, and the difference of the rates after it.
                let is_right =
                    |((after, before), late): ((u64, u64), u64)| (before..=before + 100_000 + late / 1_000).contains(&after);
                prop_assert!(differences.clone().all(is_right), "{:?}", differences.collect::<std::vec::Vec<_>>());
            }
        }
    }

    #[test]
    fn thread_preempted_after_it_read_the_counter_does_not_see_time_go_back() {
        let clock = started(0, GHZ);
        let (before, read) = (clock.function().nanoseconds(GHZ).unwrap(), GHZ + 1);
        // 90 ms later the clock is corrected to a higher rate, before the thread continues.
        assert!(clock.correct(GHZ + 90_000_000, GHZ - 20_000));
        assert!(clock.function().nanoseconds(read).unwrap() >= before);
    }

    /// Reads a clock until `is_over` is set, and checks that the time does not go back.
    fn read_until(is_over: &AtomicBool, read: impl Fn() -> u64) {
        let mut last = 0;
        while !is_over.load(Ordering::Relaxed) {
            let now = read();
            assert!(now >= last, "{} ns back", last - now);
            last = now;
        }
    }

    /// Makes only as many corrections as a reader may miss, because the host may preempt the reader at any
    /// moment.
    fn read_during_corrections() {
        let (clock, counter, is_over) = (started(0, GHZ), AtomicU64::new(0), AtomicBool::new(false));
        let read = || clock.function().nanoseconds(counter.load(Ordering::SeqCst)).unwrap();
        let correct = |round: usize| {
            let before = read();
            let counter = counter.fetch_add(1_000, Ordering::SeqCst) + 1_000;
            let frequency = if round.is_multiple_of(2) { GHZ + 100_000 } else { GHZ - 100_000 };
            assert!(clock.correct(counter, frequency));
            assert!(read() > before);
        };
        thread::scope(|scope| {
            scope.spawn(|| read_until(&is_over, read));
            (1..FUNCTIONS - 1).for_each(correct);
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn readers_on_other_cpus_never_see_time_go_back() {
        (0..if cfg!(miri) { 2 } else { 100 }).for_each(|_| read_during_corrections());
    }
}
