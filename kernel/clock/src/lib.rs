//! Arithmetic of clocks: conversion of counter ticks to nanoseconds, measurement and correction of counter
//! frequencies, a wall clock that follows the host's, calendar dates.
//!
//! ```
//! use hermit_clock::{NANOSECONDS, TickScale};
//!
//! let scale = TickScale::new(2_000_000_000);
//! assert_eq!(scale.nanoseconds(4_000_000_000), 2 * NANOSECONDS);
//! assert_eq!(scale.ticks(1_000), 2_000);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod date;
pub mod paravirtual;
mod regression;
mod seqlock;
mod timekeeper;
mod wall_clock;

pub use date::Date;
pub use regression::LeastSquares;
pub use seqlock::SeqLock;
pub use timekeeper::{TimeFunction, Timekeeper};
pub use wall_clock::{HostTime, SlewedClock};

/// Nanoseconds per second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// Conversion between the ticks of a counter and nanoseconds, by one multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickScale {
    /// Nanoseconds per tick, times 2^32.
    multiplier: u64,
    /// Ticks per nanosecond, times 2^`inverse_shift`, rounded up: at most 2^63.
    inverse: u64,
    /// Shift of `inverse`, at most 92.
    inverse_shift: u32,
}

impl TickScale {
    const SHIFT: u32 = 32;

    /// Creates the scale of a counter with a frequency in Hz, from 1 to 2^63; 0 counts as 1.
    #[must_use]
    pub const fn new(frequency: u64) -> Self {
        let frequency = if frequency == 0 { 1 } else { frequency };
        // Rounded to the nearest; below 2^62 for every frequency, so nothing is lost.
        let scaled = ((NANOSECONDS as u128) << Self::SHIFT) + frequency as u128 / 2;
        #[expect(clippy::cast_possible_truncation, reason = "10^9 * 2^32 is below 2^62")]
        let multiplier = (scaled / frequency as u128) as u64;
        let Some(magnitude) = multiplier.checked_ilog2() else {
            // The counter is so fast that a tick rounds to 0 ns, so its time stays 0.
            return Self { multiplier, inverse: u64::MAX, inverse_shift: 0 };
        };
        // As many bits as fit: between 2^62 and 2^63.
        let inverse = (1_u128 << (magnitude + 63)).div_ceil(multiplier as u128);
        #[expect(clippy::cast_possible_truncation, reason = "multiplier is at least 2^magnitude")]
        Self { multiplier, inverse: inverse as u64, inverse_shift: magnitude + 63 - Self::SHIFT }
    }

    /// Converts ticks to nanoseconds, rounded down. Wraps around after 584 years.
    #[inline]
    #[must_use]
    pub const fn nanoseconds(self, ticks: u64) -> u64 {
        Self::scaled(ticks, self.multiplier)
    }

    /// The multiplier of [`Self::nanoseconds`], for [`Self::scaled`].
    #[must_use]
    pub const fn multiplier(self) -> u64 {
        self.multiplier
    }

    /// Converts ticks to nanoseconds as [`Self::nanoseconds`] does, from the multiplier alone.
    #[inline]
    #[must_use]
    pub const fn scaled(ticks: u64, multiplier: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
        {
            ((ticks as u128 * multiplier as u128) >> Self::SHIFT) as u64
        }
    }

    /// Converts nanoseconds to ticks, rounded up and saturating at [`u64::MAX`].
    ///
    /// The result is the smallest number of ticks that [`TickScale::nanoseconds`] converts to at least
    /// `nanoseconds`. So a wait for this number of ticks is long enough. (Results of 2^62 and more may be a
    /// few ticks too large.)
    #[inline]
    #[must_use]
    pub const fn ticks(self, nanoseconds: u64) -> u64 {
        // Below 2^127 + 2^92, so nothing is lost.
        let round_up = (1_u128 << self.inverse_shift) - 1;
        let ticks = (nanoseconds as u128 * self.inverse as u128 + round_up) >> self.inverse_shift;
        if ticks > u64::MAX as u128 {
            return u64::MAX;
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked")]
        let ticks = ticks as u64;
        // The inverse is rounded up, so this may be one too many.
        let fewer = ticks.saturating_sub(1);
        let are_enough = fewer as u128 * self.multiplier as u128 >= (nanoseconds as u128) << Self::SHIFT;
        if are_enough { fewer } else { ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::{NANOSECONDS, TickScale};
    use proptest::prelude::{Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    /// Frequencies of every magnitude up to 2^62 Hz.
    fn frequency() -> impl Strategy<Value = u64> {
        (0..62_u32, any::<u64>()).prop_map(|(bits, low)| (1 << bits) | (low & ((1 << bits) - 1)))
    }

    /// Nanoseconds of ticks, without wrapping around.
    fn wide_nanoseconds(scale: TickScale, ticks: u64) -> u128 {
        (u128::from(ticks) * u128::from(scale.multiplier)) >> TickScale::SHIFT
    }

    #[test]
    fn ticks_of_round_frequencies_are_exact() {
        let gigahertz = TickScale::new(NANOSECONDS);
        for nanoseconds in [0, 1, 2, 1_000_000_007, u64::MAX - 1, u64::MAX] {
            assert_eq!(gigahertz.ticks(nanoseconds), nanoseconds);
        }
        let megahertz = TickScale::new(1_000_000);
        assert_eq!([0, 1, 999, 1000, 1001, 2000].map(|time| megahertz.ticks(time)), [0, 1, 1, 1, 2, 2]);
        assert_eq!(TickScale::new(1).ticks(NANOSECONDS), 1);
        assert_eq!(TickScale::new(4 * NANOSECONDS).ticks(u64::MAX), u64::MAX);
        assert_eq!(TickScale::new(1 << 63).ticks(1), u64::MAX);
    }

    #[test]
    fn tick_of_one_gigahertz_is_a_nanosecond() {
        let scale = TickScale::new(NANOSECONDS);
        assert_eq!(scale.nanoseconds(0), 0);
        assert_eq!(scale.nanoseconds(u64::MAX), u64::MAX);
    }

    #[test]
    fn frequency_zero_counts_as_one() {
        assert_eq!(TickScale::new(0), TickScale::new(1));
    }

    proptest! {
        /// A day on any counter from 1 MHz to 10 GHz is exact to the rounding of the multiplier.
        #[test]
        fn nanoseconds_of_a_day_are_exact_to_rounding(frequency in 1_000_000..10_000_000_000_u64) {
            let day = TickScale::new(frequency).nanoseconds(frequency * 86_400);
            prop_assert!(day.abs_diff(86_400 * NANOSECONDS) <= frequency * 86_400 / (1 << 32) + 1, "{}", day);
        }

        /// The ticks of a duration are enough for it, and one tick fewer is not.
        #[test]
        fn ticks_are_the_inverse_of_nanoseconds(frequency in frequency(), nanoseconds in any::<u64>(), bits in 0..64) {
            let (scale, nanoseconds) = (TickScale::new(frequency), nanoseconds >> bits);
            let ticks = scale.ticks(nanoseconds);
            let are_enough = |ticks: u64| wide_nanoseconds(scale, ticks) >= u128::from(nanoseconds);
            prop_assert!(ticks == u64::MAX || are_enough(ticks));
            if (1..1 << 62).contains(&ticks) {
                prop_assert!(!are_enough(ticks - 1));
            } else if ticks >= 5 {
                prop_assert!(!are_enough(ticks - 5));
            }
        }

        /// The ticks of a second are the frequency, to the rounding of the scale.
        #[test]
        fn ticks_of_a_second_are_the_frequency(frequency in 1..10_000_000_000_u64) {
            let ticks = TickScale::new(frequency).ticks(NANOSECONDS);
            prop_assert!(ticks.abs_diff(frequency) <= 1 + frequency / 100_000_000, "{}", ticks);
        }

        #[test]
        fn ticks_is_monotonic_and_does_not_panic(frequency in any::<u64>(), nanoseconds in any::<u64>()) {
            let scale = TickScale::new(frequency.min(1 << 63));
            prop_assert!(scale.ticks(nanoseconds) <= scale.ticks(nanoseconds.saturating_add(1)));
            prop_assert_eq!(scale.ticks(0), 0);
        }

        #[test]
        fn nanoseconds_is_monotonic(frequency in 1..u64::MAX / 2, ticks in 0..1_u64 << 40, more in 0..1000_u64) {
            let scale = TickScale::new(frequency.max(1_000_000));
            prop_assert!(scale.nanoseconds(ticks) <= scale.nanoseconds(ticks + more));
        }
    }
}
