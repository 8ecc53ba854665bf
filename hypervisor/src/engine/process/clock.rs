//! How fast the time-stamp counter is.
#![expect(unsafe_code, reason = "reading the counter is an instruction")]

use core::arch::x86_64::{__cpuid, _rdtsc};
use std::thread;
use std::time::{Duration, Instant};

/// How long the counter is watched at least. Both ends are off by some ten nanoseconds: that is less than 20 millionths.
const LEAST: Duration = Duration::from_millis(2);

/// How often an end is read; the best reading counts.
const READINGS: usize = 8;

/// The leaf of CPUID that names the vendor, the one that says whether the counter's speed is constant, and the one that
/// says up to where there are such leaves (SDM volume 3, section 19.17.1).
const VENDOR: u32 = 0;
const POWER: u32 = 0x8000_0007;
const EXTENDED: u32 = 0x8000_0000;
const CONSTANT: u32 = 1 << 8;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    instant: Instant,
}

/// Measures the frequency from when it is started on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Reading);

impl Clock {
    pub(super) fn start() -> Self {
        Self(read())
    }

    /// Ticks per second. Waits until enough time has passed.
    pub(super) fn frequency(self) -> u64 {
        thread::sleep(LEAST.saturating_sub(self.0.instant.elapsed()));
        frequency(self.0, read())
    }
}

/// Whether the counter's speed is always the same. Hypervisors often do not pass the bit on that says so; Intel's processors
/// with 64 bits all have such a counter.
pub(super) fn is_constant() -> bool {
    let is_intel = __cpuid(VENDOR).ebx == u32::from_le_bytes(*b"Genu");
    is_intel || __cpuid(EXTENDED).eax >= POWER && __cpuid(POWER).edx & CONSTANT != 0
}

/// What the counter shows.
pub(super) fn ticks() -> u64 {
    // SAFETY: the instruction only reads the counter, and every x86-64 processor has it.
    unsafe { _rdtsc() }
}

fn read() -> Reading {
    let one = || {
        let before = ticks();
        let instant = Instant::now();
        let length = ticks().wrapping_sub(before);
        (length, Reading { ticks: before.wrapping_add(length / 2), instant })
    };
    let first = one();
    let best =
        (1..READINGS).map(|_| one()).fold(first, |best, next| if next.0 < best.0 { next } else { best });
    best.1
}

fn frequency(start: Reading, end: Reading) -> u64 {
    let passed = end.instant.duration_since(start.instant).as_nanos().max(1);
    let ticks = u128::from(end.ticks.wrapping_sub(start.ticks));
    u64::try_from(ticks * Duration::from_secs(1).as_nanos() / passed).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Clock, LEAST, Reading, frequency};
    use std::time::{Duration, Instant};

    #[test]
    fn ticks_are_counted_for_a_second() {
        let instant = Instant::now();
        let start = Reading { ticks: u64::MAX - 1, instant };
        let end = Reading { ticks: 2_999_998, instant: instant + Duration::from_millis(2) };
        assert_eq!(frequency(start, end), 1_500_000_000);
        assert_eq!(frequency(start, start), 0);
    }

    #[test]
    fn measurements_agree() {
        let clock = Clock::start();
        let (first, second) = (clock.frequency(), Clock::start().frequency());
        assert!(clock.0.instant.elapsed() >= LEAST * 2);
        assert!(first.abs_diff(second) < first / 100, "{first}, {second}");
    }
}
