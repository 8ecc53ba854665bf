//! The wall clock: an offset to the monotonic clock, which follows the host's wall clock.
//!
//! A reading of the host's time is an interval, since a real-time clock counts whole seconds, and since a
//! hypercall takes time. A wall clock inside of the interval counts as right. A small error is slewed, as by
//! `adjtime(3)`, so that the clock does not go back. A large error is stepped; it occurs when the host's
//! clock was set or the machine was suspended.

use crate::NANOSECONDS;

/// Minimum error for which the clock is stepped, in nanoseconds: 128 ms, as in NTP (RFC 5905, section 11.2,
/// `STEPT`).
const STEP_THRESHOLD: u64 = 128_000_000;

/// Rate at which the clock is slewed, as a divisor of the elapsed time: 500 ppm, as in NTP and in Linux's
/// `adjtime`.
const SLEW_DIVISOR: u64 = 2_000;

/// A reading of the host's wall clock: bounds in nanoseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTime {
    earliest_ns: u64,
    latest_ns: u64,
}

impl HostTime {
    /// An exact reading.
    #[must_use]
    pub const fn exact(time_ns: u64) -> Self {
        Self { earliest_ns: time_ns, latest_ns: time_ns }
    }

    /// A reading of a clock that counts seconds.
    #[must_use]
    pub const fn second(seconds: u64) -> Self {
        let earliest_ns = seconds.saturating_mul(NANOSECONDS);
        Self { earliest_ns, latest_ns: earliest_ns.saturating_add(NANOSECONDS - 1) }
    }

    /// The time now, if the clock was read at some moment of the last `duration_ns`.
    #[must_use]
    pub const fn read_within(self, duration_ns: u64) -> Self {
        Self { latest_ns: self.latest_ns.saturating_add(duration_ns), ..self }
    }

    /// The middle of the interval, whose maximum error is smallest.
    #[must_use]
    pub const fn middle(self) -> u64 {
        self.earliest_ns + self.uncertainty() / 2
    }

    const fn uncertainty(self) -> u64 {
        self.latest_ns - self.earliest_ns
    }
}

/// A wall clock. Times are in nanoseconds: of the monotonic clock, or since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlewedClock {
    /// Monotonic time of the latest change.
    since: u64,
    /// Offset to the monotonic clock at `since`.
    offset: u64,
    /// Offset to which the clock is slewed.
    target: u64,
}

impl SlewedClock {
    /// A clock that shows `time` at the monotonic time `now`.
    #[must_use]
    pub const fn new(now: u64, time: u64) -> Self {
        let offset = time.wrapping_sub(now);
        Self { since: now, offset, target: offset }
    }

    /// The clock's state, to be kept in a [`crate::SeqLock`].
    #[inline]
    #[must_use]
    pub const fn to_words(self) -> [u64; 3] {
        [self.since, self.offset, self.target]
    }

    /// The clock with a state of [`Self::to_words`].
    #[inline]
    #[must_use]
    pub const fn from_words([since, offset, target]: [u64; 3]) -> Self {
        Self { since, offset, target }
    }

    /// Nanoseconds since 1970 (UTC) at the monotonic time `now`. Wraps around after 584 years.
    #[inline]
    #[must_use]
    pub const fn time(self, now: u64) -> u64 {
        let error = self.target.wrapping_sub(self.offset).cast_signed();
        let offset =
            if error == 0 { self.offset } else { self.offset.wrapping_add_signed(self.slewed(now, error)) };
        now.wrapping_add(offset)
    }

    /// The part of an error that has been corrected by slewing at the monotonic time `now`.
    const fn slewed(self, now: u64, error: i64) -> i64 {
        let limit = (now.saturating_sub(self.since) / SLEW_DIVISOR).cast_signed();
        if error < -limit {
            -limit
        } else if error > limit {
            limit
        } else {
            error
        }
    }

    /// Returns the clock after a reading of the host's clock at the monotonic time `now`: it has stepped, or
    /// starts to slew. An uncertain reading steps the clock only if the error is more than the uncertainty,
    /// because the clock's first reading was as uncertain.
    #[must_use]
    pub fn following(self, now: u64, host: HostTime) -> Self {
        let time = self.time(now);
        let right = time.clamp(host.earliest_ns, host.latest_ns);
        let is_step = right.abs_diff(time) >= STEP_THRESHOLD.max(host.uncertainty());
        let shown = if is_step { host.middle() } else { time };
        let target = if is_step { shown } else { right };
        Self { since: now, offset: shown.wrapping_sub(now), target: target.wrapping_sub(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::{HostTime, SLEW_DIVISOR, STEP_THRESHOLD, SlewedClock};
    use crate::NANOSECONDS;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    const EPOCH: u64 = 1_700_000_000 * NANOSECONDS;
    const HOUR: u64 = 3_600 * NANOSECONDS;

    #[test]
    fn large_error_is_stepped_in_both_directions() {
        let mut clock = SlewedClock::new(5, EPOCH);
        for host in [EPOCH + STEP_THRESHOLD + 5, EPOCH - HOUR, 0, EPOCH] {
            clock = clock.following(10, HostTime::exact(host));
            assert_eq!([clock.time(10), clock.time(10 + HOUR)], [host, host + HOUR]);
        }
    }

    #[test]
    fn small_error_is_slewed_at_500_ppm() {
        let clock = SlewedClock::new(0, EPOCH).following(0, HostTime::exact(EPOCH - 1_000_000));
        let shown = [0, 1, 2, 9].map(|seconds| clock.time(seconds * NANOSECONDS) - seconds * NANOSECONDS);
        assert_eq!(shown, [EPOCH, EPOCH - 500_000, EPOCH - 1_000_000, EPOCH - 1_000_000]);
    }

    #[test]
    fn reading_of_seconds_leaves_a_clock_inside_of_the_second_alone() {
        let clock = SlewedClock::new(0, EPOCH + 999_999_999);
        assert_eq!(clock.following(0, HostTime::second(EPOCH / NANOSECONDS)), clock);
        let slewed = clock.following(0, HostTime::second(EPOCH / NANOSECONDS + 1));
        assert_eq!(slewed.time(2_000), EPOCH + NANOSECONDS + 2_000);
    }

    #[test]
    fn clock_that_started_in_the_middle_of_a_second_is_never_stepped_by_readings_of_seconds() {
        // The first reading was at the very start, or the very end, of the host's second.
        for host in [EPOCH, EPOCH + 999_999_999] {
            let first = HostTime::second(host / NANOSECONDS);
            let mut clock = SlewedClock::new(0, first.middle());
            for tenth in 1..if cfg!(miri) { 100 } else { 30_000_u64 } {
                let now = tenth * NANOSECONDS / 10;
                let reading = HostTime::second((host + now) / NANOSECONDS);
                let followed = clock.following(now, reading);
                assert_eq!(followed.time(now), clock.time(now));
                clock = followed;
            }
            assert!(clock.time(3_000 * NANOSECONDS).abs_diff(host + 3_000 * NANOSECONDS) <= NANOSECONDS);
        }
    }

    #[test]
    fn reading_of_seconds_steps_after_a_suspend() {
        let clock = SlewedClock::new(0, EPOCH);
        let host = EPOCH + 5 * NANOSECONDS;
        let stepped = clock.following(NANOSECONDS, HostTime::second(host / NANOSECONDS));
        assert!(stepped.time(NANOSECONDS).abs_diff(host) <= NANOSECONDS / 2);
    }

    #[test]
    fn time_within_a_slow_reading_is_right() {
        let clock = SlewedClock::new(0, EPOCH);
        let reading = HostTime::exact(EPOCH - NANOSECONDS).read_within(2 * NANOSECONDS);
        assert_eq!(clock.following(0, reading), clock);
    }

    proptest! {
        /// If the counter is wrong by up to 300 ppm, the clock's error falls to at most the drift in one
        /// second, and the clock neither steps nor goes back meanwhile.
        #[test]
        fn clock_converges_on_the_host(ppm in -300_i64..=300, start in 0..STEP_THRESHOLD - 1_000_000, ahead: bool) {
            let monotonic = |second: u64| {
                (second * NANOSECONDS).strict_add_signed(ppm * 1_000 * i64::try_from(second).unwrap())
            };
            let mut clock = SlewedClock::new(0, if ahead { EPOCH + start } else { EPOCH - start });
            let mut last = clock.time(0);
            for second in 1..1_000 {
                let now = monotonic(second);
                clock = clock.following(now, HostTime::exact(EPOCH + second * NANOSECONDS));
                let time = clock.time(now);
                prop_assert!((time - last).abs_diff(NANOSECONDS) <= 900_000, "{} ns", time - last);
                last = time;
            }
            let error = last.abs_diff(EPOCH + 999 * NANOSECONDS);
            prop_assert!(error <= ppm.unsigned_abs() * 1_000 + 1_000, "{}", error);
        }

        /// Between readings, the clock's rate differs from the monotonic clock's by at most 500 ppm, whatever
        /// the host's clock shows.
        #[test]
        fn slew_is_bounded(
            readings in vec((any::<u64>(), any::<u32>(), 0..10 * NANOSECONDS), 1..20),
            start: u64,
        ) {
            let (mut clock, mut now) = (SlewedClock::new(0, start), 0);
            for (earliest, width, wait) in readings {
                let host = HostTime { earliest_ns: earliest, latest_ns: earliest.saturating_add(width.into()) };
                clock = clock.following(now, host);
                let before = clock.time(now);
                now += wait;
                let passed = clock.time(now).wrapping_sub(before);
                prop_assert!(passed.abs_diff(wait) <= wait / SLEW_DIVISOR, "{} in {}", passed, wait);
            }
        }

        /// Time goes back only by a step. This also holds across a reading.
        #[test]
        fn slewed_clock_is_monotonic(
            errors in vec((-100_000_000_i64..100_000_000, 0..NANOSECONDS, 0..10_000_u64), 1..20),
        ) {
            let (mut clock, mut now) = (SlewedClock::new(0, EPOCH), 0);
            for (error, wait, little) in errors {
                let before = clock.time(now + wait);
                now += wait;
                clock = clock.following(now, HostTime::exact(clock.time(now).strict_add_signed(error)));
                prop_assert_eq!(clock.time(now), before);
                prop_assert!(clock.time(now + little) >= before);
            }
        }

        /// When slewing ends, the clock is inside of the reading's interval.
        #[test]
        fn settled_clock_is_inside_of_the_reading(earliest: u64, width: u32, start: u64) {
            let host = HostTime { earliest_ns: earliest, latest_ns: earliest.saturating_add(width.into()) };
            let clock = SlewedClock::new(0, start).following(0, host);
            let settled = u64::from(u32::MAX) * SLEW_DIVISOR;
            let shown = clock.time(settled).wrapping_sub(settled);
            prop_assert!(shown >= host.earliest_ns && shown <= host.latest_ns);
            prop_assert_eq!(SlewedClock::from_words(clock.to_words()), clock);
        }

        #[test]
        fn any_state_has_a_time(words: [u64; 3], now: u64) {
            let _time: u64 = SlewedClock::from_words(words).time(now);
        }
    }
}
