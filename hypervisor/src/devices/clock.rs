//! The host's clock for the guest ([`hermit_interface::machine::CLOCK`]): the host's wall clock, and the
//! frequency of the time-stamp counter.
//!
//! The frequency is computed from two samples of the counter and of the host's clock. The result is more
//! precise if more time passes between the samples. So the boot information has a first value, and the guest
//! reads a register later to correct it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermit_interface::machine::{CLOCK_FREQUENCY, CLOCK_WALL};
use rustix::time::{ClockId, clock_gettime};

use super::bus::BusDevice;
use crate::devices::tsc::{self, TscSample};
use crate::image::boot;

/// Value of a register that has no value.
const UNKNOWN: u64 = u64::MAX;

/// Tolerance when two values of the host's suspension time are compared. A larger difference means that the
/// host was suspended between them, and restarts the measurement.
const SUSPEND_TOLERANCE: Duration = Duration::from_millis(1);

/// The host's clock.
#[derive(Debug)]
pub struct HostClock {
    /// Start of the frequency measurement; `None` if the frequency is not constant.
    start: Option<Mutex<Anchor>>,
    /// Seconds by which the guest sees the wall clock step after its first reading. For tests.
    step_seconds: i64,
    was_read: AtomicBool,
}

/// Sample of counter and clock at one moment, and the suspension time of the host until then.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    sample: TscSample,
    suspended: Duration,
}

impl Anchor {
    fn now() -> Self {
        Self { sample: tsc::sample(), suspended: suspended() }
    }

    /// Returns the frequency of the counter in Hz between this moment and `end`; `None` if the host was
    /// suspended in between. During a suspension, `CLOCK_MONOTONIC` stands still, but the counter may or may
    /// not count.
    fn frequency(self, end: Self) -> Option<u64> {
        let is_suspended = end.suspended.abs_diff(self.suspended) > SUSPEND_TOLERANCE;
        let frequency = tsc::frequency_hz(self.sample, end.sample);
        (!is_suspended && frequency != 0).then_some(frequency)
    }
}

impl HostClock {
    /// Creates the clock, whose wall clock steps by `step_seconds` after its first reading.
    #[must_use]
    pub fn new(step_seconds: i64) -> Self {
        let start = tsc::is_constant().then(|| Mutex::new(Anchor::now()));
        Self { start, step_seconds, was_read: AtomicBool::new(false) }
    }

    fn wall_clock_ns(&self) -> u64 {
        let is_stepped = self.was_read.swap(true, Ordering::Relaxed);
        let step_seconds = if is_stepped { self.step_seconds } else { 0 };
        boot::wall_clock_ns().saturating_add_signed(step_seconds.saturating_mul(1_000_000_000))
    }

    fn frequency(&self) -> Option<u64> {
        let mut start = self.start.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Anchor::now();
        let frequency = start.frequency(now);
        if frequency.is_none() {
            *start = now;
        }
        frequency
    }
}

/// Returns the total time for which the host has been suspended.
fn suspended() -> Duration {
    let now = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let monotonic = now(ClockId::Monotonic);
    now(ClockId::Boottime).saturating_sub(monotonic)
}

impl BusDevice for HostClock {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let value = match usize::try_from(offset) {
            Ok(CLOCK_WALL) => Some(self.wall_clock_ns()),
            Ok(CLOCK_FREQUENCY) => self.frequency(),
            _ => None,
        };
        match <&mut [u8; 8]>::try_from(&mut *data) {
            Ok(data) => *data = value.unwrap_or(UNKNOWN).to_le_bytes(),
            // Only reads of a whole register are supported.
            Err(_) => data.fill(0xff),
        }
    }

    /// The guest cannot set the clock.
    fn write(&self, _offset: u64, _data: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::{Anchor, HostClock, UNKNOWN};
    use crate::devices::bus::BusDevice;
    use crate::devices::tsc;
    use crate::image::boot;
    use std::time::Duration;

    fn read(clock: &HostClock, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        clock.read(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn wall_clock_is_that_of_the_host() {
        let clock = HostClock::new(0);
        let before = boot::wall_clock_ns();
        clock.write(0, &[0; 8]);
        let time = read(&clock, 0);
        assert!(before <= time && time <= boot::wall_clock_ns());
    }

    #[test]
    fn wall_clock_steps_after_the_first_reading() {
        for step in [3_600_i64, -3_600] {
            let clock = HostClock::new(step);
            let times = [read(&clock, 0), read(&clock, 0)].map(|time| i128::from(time) / 1_000_000_000);
            let error = times[1] - times[0] - i128::from(step);
            assert!((0..600).contains(&error), "{times:?}");
        }
    }

    #[test]
    fn frequency_agrees_with_a_calibration() {
        let clock = HostClock::new(0);
        if !tsc::is_constant() {
            assert_eq!(read(&clock, 8), UNKNOWN);
            return;
        }
        let known = tsc::TscCalibration::start().frequency_hz();
        let measured = read(&clock, 8);
        assert!(measured.abs_diff(known) < known / 100, "{measured}, {known}");
    }

    #[test]
    fn measurement_across_a_suspend_is_discarded() {
        let (start, end) = (Anchor::now(), Anchor::now());
        let woken = Anchor { suspended: end.suspended + Duration::from_secs(1), ..end };
        assert_eq!(start.frequency(woken), None);
        assert!(woken.frequency(Anchor { suspended: woken.suspended, ..Anchor::now() }).is_some());
    }

    #[test]
    fn other_accesses_read_as_all_ones() {
        let clock = HostClock::new(0);
        assert_eq!(read(&clock, 4), UNKNOWN);
        for size in [1, 4, 16] {
            let mut bytes = vec![0; size];
            clock.read(0, &mut bytes);
            assert_eq!(bytes, vec![0xff; size]);
        }
    }
}
