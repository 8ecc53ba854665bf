//! The arithmetic of clocks: how counters become nanoseconds, how fast a counter is, and which second a date is.
#![no_std]
#![forbid(unsafe_code)]

mod date;

pub use date::Date;

/// Nanoseconds in a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// Turns ticks of a counter into nanoseconds by one multiplication and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Nanoseconds per tick, times 2^32.
    multiplier: u64,
}

impl Scale {
    const SHIFT: u32 = 32;

    /// The scale of a counter with so many ticks per second; at least one, at most 2^63.
    #[must_use]
    pub const fn new(frequency: u64) -> Self {
        let frequency = if frequency == 0 { 1 } else { frequency };
        // Rounded to the nearest; below 2^62 for every frequency, so nothing is lost.
        let scaled = ((NANOSECONDS as u128) << Self::SHIFT) + frequency as u128 / 2;
        #[expect(clippy::cast_possible_truncation, reason = "10^9 * 2^32 is below 2^62")]
        Self { multiplier: (scaled / frequency as u128) as u64 }
    }

    /// The nanoseconds that so many ticks take. Wraps around after 584 years.
    #[inline]
    #[must_use]
    pub const fn nanoseconds(self, ticks: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
        {
            ((ticks as u128 * self.multiplier as u128) >> Self::SHIFT) as u64
        }
    }
}

/// The same moment on two counters: the time-stamp counter, and a reference whose frequency is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time-stamp counter.
    pub tsc: u64,
    /// The reference, counting up.
    pub reference: u64,
}

impl Span {
    /// Ticks of the time-stamp counter per second, from this moment and a later one; at least 1.
    #[must_use]
    pub const fn frequency(&self, later: &Self, reference_frequency: u64) -> u64 {
        let ticks = later.tsc.saturating_sub(self.tsc) as u128;
        let reference = later.reference.saturating_sub(self.reference) as u128;
        if ticks == 0 || reference == 0 {
            return 1;
        }
        let frequency = ticks * reference_frequency as u128 / reference;
        #[expect(clippy::cast_possible_truncation, reason = "checked")]
        if frequency > u64::MAX as u128 { u64::MAX } else { frequency as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{NANOSECONDS, Scale, Span};
    use proptest::{prop_assert, proptest};

    #[test]
    fn a_gigahertz_is_a_nanosecond() {
        let scale = Scale::new(NANOSECONDS);
        assert_eq!(scale.nanoseconds(0), 0);
        assert_eq!(scale.nanoseconds(u64::MAX), u64::MAX);
    }

    #[test]
    fn nonsense_does_not_panic() {
        assert_eq!(Scale::new(0), Scale::new(1));
        let same = Span { tsc: 5, reference: 5 };
        assert_eq!(same.frequency(&same, 1000), 1);
        assert_eq!(
            Span { tsc: 0, reference: 0 }.frequency(&Span { tsc: u64::MAX, reference: 1 }, u64::MAX),
            u64::MAX
        );
    }

    #[test]
    fn a_frequency_is_ticks_per_reference_second() {
        let start = Span { tsc: 1000, reference: 10 };
        let end = Span { tsc: 1000 + 12_500_000, reference: 10 + 5_966 };
        let measured = start.frequency(&end, 1_193_182);
        assert!((2_499_000_000..2_501_000_000).contains(&measured), "{measured}");
    }

    proptest! {
        /// A day on any counter from 1 MHz to 10 GHz is right to a microsecond.
        #[test]
        fn a_day_is_a_day(frequency in 1_000_000..10_000_000_000_u64) {
            let day = Scale::new(frequency).nanoseconds(frequency * 86_400);
            prop_assert!(day.abs_diff(86_400 * NANOSECONDS) <= frequency * 86_400 / (1 << 32) + 1, "{}", day);
        }

        #[test]
        fn time_never_goes_back(frequency in 1..u64::MAX / 2, ticks in 0..1_u64 << 40, more in 0..1000_u64) {
            let scale = Scale::new(frequency.max(1_000_000));
            prop_assert!(scale.nanoseconds(ticks) <= scale.nanoseconds(ticks + more));
        }
    }
}
