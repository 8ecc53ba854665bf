//! Tests that the guest's wall clock follows the host's.

use anyhow::{Context, Result, ensure};

use super::Fixture;
use crate::test::schedule::Tests;

/// Maximum difference in milliseconds between a step of the guest's wall clock and the step of the host's.
/// Below this threshold, the guest slews its clock instead.
const TOLERANCE_MS: i64 = 128;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    for seconds in [7_200, -7_200] {
        fixture.add(tests, &format!("a step of the host's clock by {seconds} s"), move || {
            follows_step(fixture, seconds)
        });
    }
}

/// The guest's wall clock steps with the host's. The guest itself checks that its monotonic clock does not
/// step.
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
