//! Runs the tests of an image in a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::build::TestImage;
use super::events::{self, Outcomes};
use super::skipped::Skipped;
use crate::test::platform::{TestGuest, TestPlatform};

/// How much longer than the usual limit a machine may run that runs all tests of an image: it only bounds how long a hang lasts.
const MORE_TIME: Duration = Duration::from_secs(20 * 60);

/// Number of machines that continue with the other tests after one has ended during a test.
const MAX_RESTARTS: usize = 8;

/// What libtest needs to report in JSON.
const REPORT: [&str; 3] = ["--format=json", "-Zunstable-options", "--exact"];

/// The tests of an image that have run.
#[derive(Debug, Default)]
pub(super) struct TestRun {
    outcomes: Outcomes,
    /// Tests during which a machine ended, and what it printed last.
    ended: Vec<(BTreeSet<String>, String)>,
    skipped: usize,
}

impl TestRun {
    /// Fails if a test has failed.
    pub(super) fn check(&self) -> Result<()> {
        let failed = self.outcomes.failed.iter().map(|(name, output)| format!("{name}\n{output}\n"));
        let ended =
            self.ended.iter().map(|(names, end)| format!("the machine ended during {names:?}\n{end}\n"));
        let problems: Vec<_> = failed.chain(ended).collect();
        ensure!(problems.is_empty(), "{}", problems.concat());
        Ok(())
    }

    fn failures(&self) -> usize {
        self.outcomes.failed.len() + self.ended.len()
    }
}

impl fmt::Display for TestRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { passed, ignored, .. } = &self.outcomes;
        let (passed, ignored, skipped) = (passed.len(), ignored.len(), self.skipped);
        write!(out, "{passed} passed, {} failed, {skipped} skipped, {ignored} ignored", self.failures())
    }
}

/// Number of the tests of all images.
#[derive(Debug, Default)]
pub(super) struct Totals {
    passed: AtomicUsize,
    failed: AtomicUsize,
    skipped: AtomicUsize,
    ignored: AtomicUsize,
}

impl Totals {
    pub(super) fn add(&self, run: &TestRun) {
        for (total, count) in [
            (&self.passed, run.outcomes.passed.len()),
            (&self.failed, run.failures()),
            (&self.skipped, run.skipped),
            (&self.ignored, run.outcomes.ignored.len()),
        ] {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, failed, skipped, ignored] = [&self.passed, &self.failed, &self.skipped, &self.ignored]
            .map(|total| total.load(Ordering::Relaxed));
        write!(
            out,
            "tests of std: {passed} passed, {failed} failed, {skipped} skipped, {ignored} ignored by std's sources"
        )
    }
}

/// Runs the tests of an image but the skipped ones. After a test that ends the machine, another one runs the rest.
pub(super) fn run(platform: &TestPlatform<'_>, image: &TestImage, skipped: &Skipped) -> Result<TestRun> {
    let names = names(platform, image)?;
    let mut left_out: BTreeSet<_> = skipped.keys().filter(|name| names.contains(*name)).cloned().collect();
    let mut run = TestRun { skipped: left_out.len(), ..TestRun::default() };
    for _ in 0..=MAX_RESTARTS {
        let arguments = left_out.iter().flat_map(|name| ["--skip", name]);
        let guest = guest(platform, image, &REPORT.into_iter().chain(arguments).collect::<Vec<_>>());
        // A machine that reaches the time limit is killed, and its report is in the error.
        let (code, text) = match guest.more_time(MORE_TIME).run() {
            Ok(outcome) => (outcome.code, outcome.text()),
            Err(error) => (None, format!("{error:#}")),
        };
        let outcomes = Outcomes::parse(&text);
        let is_last = outcomes.is_complete;
        let running = outcomes.running.clone();
        left_out.extend(run.merge(outcomes));
        if is_last {
            return Ok(run);
        }
        if running.is_empty() {
            bail!("the machine ended with {code:?} between tests\n{}", last_lines(&text));
        }
        left_out.extend(running.iter().cloned());
        run.ended.push((running, format!("{code:?}: {}", last_lines(&text))));
    }
    Ok(run)
}

impl TestRun {
    /// Adds what a machine reported, and returns the names of the tests that need not run again.
    fn merge(&mut self, outcomes: Outcomes) -> Vec<String> {
        let Outcomes { passed, ignored, failed, .. } = outcomes;
        let done = passed.iter().chain(&ignored).chain(failed.iter().map(|(name, _)| name));
        let done = done.cloned().collect();
        self.outcomes.passed.extend(passed);
        self.outcomes.ignored.extend(ignored);
        self.outcomes.failed.extend(failed);
        done
    }
}

/// The names of an image's tests.
fn names(platform: &TestPlatform<'_>, image: &TestImage) -> Result<BTreeSet<String>> {
    let outcome = guest(platform, image, &["--list", "--format=terse"]).run()?;
    outcome.check(0, &[])?;
    Ok(events::names(&String::from_utf8_lossy(&outcome.output)))
}

/// Fails if a test in the list of skipped ones does not exist.
pub(super) fn check_list(
    platform: &TestPlatform<'_>,
    images: &[TestImage],
    skipped: &BTreeMap<String, Skipped>,
) -> Result<()> {
    for (package, skipped) in skipped {
        let mut known = BTreeSet::new();
        for image in images.iter().filter(|image| image.package == *package) {
            known.extend(names(platform, image)?);
        }
        let unknown = super::unknown(skipped, &known);
        ensure!(unknown.is_empty(), "skipped.txt names tests of {package} that do not exist: {unknown:?}");
    }
    Ok(())
}

/// Runs each skipped test of an image in a machine of its own, and returns those that pass.
pub(super) fn passing(
    platform: &TestPlatform<'_>,
    image: &TestImage,
    skipped: &Skipped,
) -> Result<Vec<String>> {
    let names = names(platform, image)?;
    let mut passing = Vec::new();
    for name in skipped.keys().filter(|name| names.contains(*name)) {
        // A test that hangs is killed, which is an error.
        let outcome = guest(platform, image, &[REPORT.as_slice(), &[name]].concat()).run();
        let text = outcome.map_or_else(|error| format!("{error:#}"), |outcome| outcome.text());
        passing.extend(Outcomes::parse(&text).passed);
    }
    Ok(passing)
}

fn guest<'a>(platform: &'a TestPlatform<'_>, image: &TestImage, arguments: &[&str]) -> TestGuest<'a> {
    // libtest's report in JSON is unstable, so it asks for the variable.
    platform.guest_of(&image.file, arguments).cpus(2).memory(1024).variable("RUSTC_BOOTSTRAP=1")
}

/// The end of a console, which contains the error.
fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Outcomes, TestRun, Totals};

    fn outcomes(passed: &str, failed: &str) -> Outcomes {
        Outcomes {
            passed: [passed.to_owned()].into(),
            failed: vec![(failed.to_owned(), "why".to_owned())],
            ..Outcomes::default()
        }
    }

    #[test]
    fn machines_of_an_image_are_added_up() {
        let mut run = TestRun { skipped: 3, ..TestRun::default() };
        run.check().unwrap();
        assert_eq!(run.merge(outcomes("a", "b")), ["a", "b"]);
        run.merge(outcomes("c", "d"));
        run.ended.push((["e".to_owned()].into(), "page fault".to_owned()));
        assert_eq!(run.to_string(), "2 passed, 3 failed, 3 skipped, 0 ignored");
        let message = run.check().unwrap_err().to_string();
        assert!(
            ["b\nwhy", "d\nwhy", "{\"e\"}\npage fault"].iter().all(|text| message.contains(text)),
            "{message}"
        );
        let totals = Totals::default();
        totals.add(&run);
        totals.add(&run);
        assert!(totals.to_string().contains("4 passed, 6 failed, 6 skipped, 0 ignored"), "{totals}");
    }
}
