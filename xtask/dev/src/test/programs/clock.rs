//! Rate of a guest's clock, and its wall clock after a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::report::note;
use crate::test::schedule::Tests;

/// Largest accepted difference of the clocks' rates, in parts per million.
const TOLERANCE: f64 = 100.0;

/// Number of guests that must be right after one was wrong. A busy host may delay all lines of a window, but not repeatedly; a
/// guest whose calibration is wrong now and then is still detected.
const REPETITIONS: usize = 2;

/// Length of the windows at the start and at the end whose lines are compared: at least one of them arrives without delay.
const WINDOW: Duration = Duration::from_secs(2);

/// Time of the host for which a guest is paused.
const PAUSE: Duration = Duration::from_secs(5);

/// Resolution of a real-time clock, at the start and after the pause.
const RTC_ERROR_MS: u64 = 2 * 1_000;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    if !platform.is_uhyve() {
        tests.add(format!("{platform}: wall clock after a pause"), move || follows_pause(platform));
    }
    tests.add(format!("{platform}: rate of the clock"), move || {
        if is_right(measure(platform)?) {
            return Ok(());
        }
        for _ in 0..REPETITIONS {
            let error = measure(platform)?;
            ensure!(is_right(error), "the clock is again {error:.1} parts per million too fast");
        }
        Ok(())
    });
}

/// While QEMU pauses a guest, the counter and the monotonic clock stop, as after a suspend of the host; the wall clock catches
/// up.
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

/// Milliseconds in a line of `clock-step`.
fn step_ms(line: &str) -> Option<u64> {
    line.strip_prefix("the wall clock has stepped by ")?.strip_suffix(" ms")?.parse().ok()
}

fn is_right(error: f64) -> bool {
    note(format!("{error:+.1} parts per million"));
    error.abs() < TOLERANCE
}

/// By how many parts per million the clock of a guest is too fast.
fn measure(platform: &TestPlatform<'_>) -> Result<f64> {
    let outcome = platform.guest("threads", &["tick"]).expect(0, &["ok"])?;
    let ticks: Vec<_> = outcome.lines().filter_map(|(moment, line)| tick(moment, &line)).collect();
    error(&ticks)
}

/// The host's time, and the guest's in nanoseconds.
type Tick = (Instant, u64);

fn tick(moment: Instant, line: &str) -> Option<Tick> {
    Some((moment, line.strip_prefix("tick ")?.parse().ok()?))
}

/// By how many parts per million the guest's clock is too fast.
fn error(ticks: &[Tick]) -> Result<f64> {
    let (first, last) = (ticks.first().context("no ticks")?, ticks.last().context("no ticks")?);
    // How far the host is ahead of the guest: the minimum of a window, because lines arrive late but never early.
    let ahead = |tick: &Tick| (tick.0 - first.0).as_secs_f64() - nanoseconds(tick.1 - first.1);
    let least = |window: &dyn Fn(&&Tick) -> bool| {
        ticks.iter().filter(window).map(ahead).fold(f64::INFINITY, f64::min)
    };
    let start = least(&|tick| tick.0 - first.0 < WINDOW);
    let end = least(&|tick| last.0 - tick.0 < WINDOW);
    let between = (last.0 - first.0).saturating_sub(WINDOW).as_secs_f64();
    ensure!(between > 0.0, "the ticks took no time");
    Ok((start - end) / between * 1e6)
}

fn nanoseconds(count: u64) -> f64 {
    Duration::from_nanos(count).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::{Tick, error};
    use std::time::{Duration, Instant};

    #[test]
    fn fast_clock_is_measured_despite_late_lines() {
        let start = Instant::now();
        let ticks: Vec<Tick> = (0..200_u64)
            .map(|number| {
                let real = Duration::from_millis(50 * number);
                let late = Duration::from_micros(number * 7919 % 900);
                let fast = u64::try_from(real.as_nanos() * 1_000_050 / 1_000_000).unwrap();
                (start + real + late, fast)
            })
            .collect();
        let error = error(&ticks).unwrap();
        assert!((error - 50.0).abs() < 10.0, "{error}");
    }
}
