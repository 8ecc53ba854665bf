//! Tests of the rate of a guest's clock, and of its wall clock after a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::report::note;
use crate::test::schedule::Tests;

/// Maximum difference between the rates of the guest's and the host's clock, in parts per million.
const TOLERANCE: f64 = 100.0;

/// Number of guests that must have the right rate after a guest had a wrong rate. So a calibration that fails
/// only now and then is still detected.
const REPETITIONS: usize = 2;

/// Maximum number of guests that are measured. If the host delays all of them, there is no result.
const MAX_GUESTS: usize = 8;

/// Length of the two windows, at the start and at the end, whose lines are compared. In a window of this
/// length, at least two lines arrive without delay, unless the host is busy.
const WINDOW: Duration = Duration::from_secs(2);

/// Maximum difference in seconds between the two shortest delays in a window. A larger difference is
/// attributed to the host. The measured clock error is subtracted from the delays first, because a wrong
/// clock makes each line appear later, or earlier, than the previous line.
const MAX_SPREAD: f64 = 300e-6;

/// Duration of the pause of a guest, on the host's clock.
const PAUSE: Duration = Duration::from_secs(5);

/// Maximum error due to the resolution of the real-time clock, which is read at the start and after the
/// pause.
const RTC_ERROR_MS: u64 = 2 * 1_000;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    if !platform.is_uhyve() {
        tests.add(format!("{platform}: wall clock after a pause"), move || follows_pause(platform));
    }
    tests.add(format!("{platform}: rate of the clock"), move || rate(|| measure(platform)));
}

/// Measures guests. Succeeds if the first guest has the right rate, or if [`REPETITIONS`] guests have it
/// after a guest had a wrong rate.
fn rate(mut measure: impl FnMut() -> Result<Measured>) -> Result<()> {
    let (mut missing, mut has_been_wrong) = (1, false);
    for _ in 0..MAX_GUESTS {
        let Measured { error, is_clear } = measure()?;
        note(format!("{error:+.1} parts per million"));
        if error.abs() < TOLERANCE {
            missing -= 1;
        } else if is_clear {
            ensure!(!has_been_wrong, "the clock is again {error:.1} parts per million too fast");
            (missing, has_been_wrong) = (REPETITIONS, true);
        }
        if missing == 0 {
            return Ok(());
        }
    }
    note("the host is too busy to tell");
    Ok(())
}

/// Result of a measurement: by how many parts per million the guest's clock is too fast.
#[derive(Clone, Copy, Debug)]
struct Measured {
    error: f64,
    /// True if the host has not delayed the lines that are compared.
    is_clear: bool,
}

/// While QEMU pauses a guest, the time-stamp counter and the monotonic clock stop, as during a suspend of the
/// host. Afterwards the wall clock catches up.
fn follows_pause(platform: &TestPlatform<'_>) -> Result<()> {
    let started = platform.guest("threads", &["clock-step"]).start()?;
    started.has_printed(b"waiting for a step\n")?;
    let start = Instant::now();
    started.pause(PAUSE)?;
    let longest = u64::try_from(start.elapsed().as_millis())?;
    let outcome = started.end()?;
    outcome.check(0, &["ok"])?;
    let step = outcome.lines().find_map(|(_, line)| step_ms(&line)).context("the clock did not step")?;
    let least = u64::try_from(PAUSE.as_millis())?.saturating_sub(RTC_ERROR_MS);
    ensure!((least..=longest + RTC_ERROR_MS).contains(&step), "a pause of {longest} ms, a step of {step} ms");
    Ok(())
}

/// Returns the milliseconds in a line of `clock-step`.
fn step_ms(line: &str) -> Option<u64> {
    line.strip_prefix("the wall clock has stepped by ")?.strip_suffix(" ms")?.parse().ok()
}

/// Measures the clock of a guest.
fn measure(platform: &TestPlatform<'_>) -> Result<Measured> {
    let outcome = platform.guest("threads", &["tick"]).expect(0, &["ok"])?;
    let ticks: Vec<_> = outcome.lines().filter_map(|(moment, line)| tick(moment, &line)).collect();
    compare(&ticks)
}

/// The host's time at which a line arrived, and the guest's time in that line, in nanoseconds.
type Tick = (Instant, u64);

fn tick(moment: Instant, line: &str) -> Option<Tick> {
    Some((moment, line.strip_prefix("tick ")?.parse().ok()?))
}

/// Compares the clocks of guest and host.
fn compare(ticks: &[Tick]) -> Result<Measured> {
    let (first, last) = (ticks.first().context("no ticks")?, ticks.last().context("no ticks")?);
    let real = |tick: &Tick| (tick.0 - first.0).as_secs_f64();
    // Returns the time by which the host's clock is ahead of the guest's clock.
    let ahead = |tick: &Tick| real(tick) - nanoseconds(tick.1 - first.1);
    let windows = windows(ticks, first.0, last.0);
    // The minimum in a window has the least delay, because lines may arrive late but never early.
    let least =
        |window: &[Tick]| window.iter().copied().min_by(|one, other| ahead(one).total_cmp(&ahead(other)));
    let [start, end] = windows.map(|window| least(window).context("no ticks"));
    let (start, end) = (start?, end?);
    let between = real(&end) - real(&start);
    ensure!(between > 0.0, "the ticks took no time");
    let error = (ahead(&start) - ahead(&end)) / between;
    let delay = |tick: &Tick| ahead(tick) + error * real(tick);
    let is_clear = windows.iter().all(|window| spread(window.iter().map(delay)) < MAX_SPREAD);
    Ok(Measured { error: error * 1e6, is_clear })
}

/// Returns the ticks in the first and in the last [`WINDOW`].
fn windows(ticks: &[Tick], first: Instant, last: Instant) -> [&[Tick]; 2] {
    let start = ticks.partition_point(|tick| tick.0 - first < WINDOW);
    let end = ticks.partition_point(|tick| last - tick.0 >= WINDOW);
    [&ticks[..start], &ticks[end..]]
}

/// Returns the difference between the two smallest values. It is infinite if there is only one value.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let [least, second] = values.fold([f64::INFINITY; 2], |[least, second], value| {
        if value < least { [value, least] } else { [least, second.min(value)] }
    });
    second - least
}

fn nanoseconds(count: u64) -> f64 {
    Duration::from_nanos(count).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::{MAX_GUESTS, Measured, Tick, compare, rate};
    use std::time::{Duration, Instant};

    /// Returns ticks of ten seconds of a guest's clock. `late` returns the delay of each line in
    /// microseconds.
    fn ticks(parts_per_million: u128, late: impl Fn(u64) -> u64) -> Vec<Tick> {
        let start = Instant::now();
        let tick = |number: u64| {
            let real = Duration::from_millis(50 * number);
            let guest = u64::try_from(real.as_nanos() * (1_000_000 + parts_per_million) / 1_000_000).unwrap();
            (start + real + Duration::from_micros(late(number)), guest)
        };
        (0..200).map(tick).collect()
    }

    #[test]
    fn fast_clock_is_measured_despite_late_lines() {
        // If the clock is much too fast, each line appears earlier than the previous one by more than a delay
        // of the host.
        for error in [50_u32, 20_000, 1_000_000] {
            let ticks = ticks(error.into(), |number| number * 7919 % 900);
            let Measured { error: found, is_clear } = compare(&ticks).unwrap();
            assert!((found - f64::from(error)).abs() < 200.0 && is_clear, "{error}: {found}, {is_clear}");
        }
    }

    #[test]
    fn window_of_late_lines_is_not_clear() {
        let late = |number: u64| if number < 100 { 0 } else { 2_000 + number * 7919 % 97 * 1_000 };
        let Measured { error, is_clear } = compare(&ticks(50, late)).unwrap();
        assert!(error < -100.0 && !is_clear, "{error}");
    }

    #[test]
    fn wrong_rate_fails_unless_the_host_was_busy() {
        let rate_of = |measured: &[(f64, bool)]| {
            let mut measured = measured.iter().map(|&(error, is_clear)| Ok(Measured { error, is_clear }));
            rate(|| measured.next().unwrap())
        };
        let (right, wrong, unclear) = ((1.0, true), (500.0, true), (500.0, false));
        for measured in [&[right][..], &[wrong, right, right], &[unclear, right], &[unclear; MAX_GUESTS]] {
            rate_of(measured).unwrap();
        }
        for measured in [&[wrong, wrong][..], &[wrong, right, wrong], &[wrong, unclear, wrong]] {
            assert!(rate_of(measured).is_err(), "{measured:?}");
        }
    }
}
