//! The guest's wall clock follows the host's.

use anyhow::{Context, Result, ensure};

use super::Fixture;
use crate::test::schedule::Tests;

/// Maximum difference, in milliseconds, of a step of the guest's wall clock and of the host's: the threshold
/// below which a difference is slewed.
const TOLERANCE_MS: i64 = 128;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    for seconds in [7_200, -7_200] {
        fixture.add(tests, &format!("a step of the host's clock by {seconds} s"), move || {
            follows_step(fixture, seconds)
        });
    }
}

/// The wall clock steps with the host's. The other clock does not, which the guest checks.
fn follows_step(fixture: &Fixture<'_>, seconds: i64) -> Result<()> {
    let option = format!("--test-clock-step={seconds}");
    let outcome = fixture.command("threads", &["clock-step"]).options(&[&option]).expect(0, &["ok"])?;
    let step = outcome.lines().find_map(|(_, line)| {
        line.strip_prefix("the wall clock has stepped by ")?.strip_suffix(" ms")?.parse::<i64>().ok()
    });
    let step = step.context("the clock did not step")?;
    ensure!((step - seconds * 1_000).abs() <= TOLERANCE_MS, "a step by {step} ms");
    Ok(())
}
