//! Time-stamp counter: its value and frequency.
#![expect(unsafe_code, reason = "RDTSC is an intrinsic")]

use core::arch::x86_64::{__cpuid, _rdtsc};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Minimum duration of a calibration. Each of its two samples is off by about ten nanoseconds, which makes
/// about 40 ppm. The guest later gets a more precise value from a longer measurement
/// ([`crate::devices::clock`]).
const MIN_DURATION: Duration = Duration::from_micros(500);

/// Number of samples at the start and at the end of a measurement. Only the most precise one counts.
const SAMPLES: usize = 8;

/// CPUID leaves: the vendor, the highest extended leaf, and advanced power management; and the bit for an
/// invariant TSC in the last one (SDM volume 3, section 19.17.1).
const VENDOR: u32 = 0;
const EXTENDED: u32 = 0x8000_0000;
const POWER_MANAGEMENT: u32 = 0x8000_0007;
const INVARIANT_TSC: u32 = 1 << 8;

/// Values of the time-stamp counter and of `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TscSample {
    ticks: u64,
    instant: Instant,
}

/// Running calibration of the time-stamp counter against `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TscCalibration(TscSample);

impl TscCalibration {
    pub(crate) fn start() -> Self {
        Self(sample())
    }

    /// Waits until [`MIN_DURATION`] has passed since the start, and returns the counter's frequency in Hz.
    pub(crate) fn frequency_hz(self) -> u64 {
        thread::sleep(MIN_DURATION.saturating_sub(self.0.instant.elapsed()));
        frequency_hz(self.0, sample())
    }
}

/// Returns true if the counter's frequency is constant. Hypervisors often hide the CPUID bit that says so, so
/// any Intel CPU counts, because all 64-bit CPUs of Intel have such a counter.
pub(crate) fn is_constant() -> bool {
    // Cached: if uhyve itself runs in a VM, each CPUID exits to the hypervisor below, which takes
    // microseconds.
    static IS_CONSTANT: OnceLock<bool> = OnceLock::new();
    *IS_CONSTANT.get_or_init(|| {
        let is_invariant =
            __cpuid(EXTENDED).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0;
        is_invariant || __cpuid(VENDOR).ebx == u32::from_le_bytes(*b"Genu")
    })
}

/// Reads the counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: RDTSC is part of the x86-64 baseline and accesses no memory. It faults only under PR_SET_TSC,
    // which nothing here sets.
    unsafe { _rdtsc() }
}

/// Takes [`SAMPLES`] samples, and returns the one whose reads were closest together.
pub(crate) fn sample() -> TscSample {
    let one = || {
        let before = ticks();
        let instant = Instant::now();
        let length = ticks().wrapping_sub(before);
        (length, TscSample { ticks: before.wrapping_add(length / 2), instant })
    };
    let first = one();
    let best =
        (1..SAMPLES).map(|_| one()).fold(first, |best, next| if next.0 < best.0 { next } else { best });
    best.1
}

/// Returns the counter's frequency in Hz between two samples.
pub(crate) fn frequency_hz(start: TscSample, end: TscSample) -> u64 {
    let elapsed_ns = end.instant.duration_since(start.instant).as_nanos().max(1);
    let ticks = u128::from(end.ticks.wrapping_sub(start.ticks));
    u64::try_from(ticks * Duration::from_secs(1).as_nanos() / elapsed_ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{MIN_DURATION, TscCalibration, TscSample, frequency_hz};
    use std::time::{Duration, Instant};

    #[test]
    fn frequency_is_ticks_per_second_across_wrap_around() {
        let instant = Instant::now();
        let start = TscSample { ticks: u64::MAX - 1, instant };
        let end = TscSample { ticks: 2_999_998, instant: instant + Duration::from_millis(2) };
        assert_eq!(frequency_hz(start, end), 1_500_000_000);
        assert_eq!(frequency_hz(start, start), 0);
    }

    #[test]
    fn calibrations_agree_within_one_percent() {
        let calibration = TscCalibration::start();
        let (first, second) = (calibration.frequency_hz(), TscCalibration::start().frequency_hz());
        assert!(calibration.0.instant.elapsed() >= MIN_DURATION * 2);
        assert!(first.abs_diff(second) < first / 100, "{first}, {second}");
    }
}
