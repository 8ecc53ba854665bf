//! Runs the tests of an image in a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::build::TestImage;
use super::events::{self, Outcomes, Verdict};
use super::skipped::Skipped;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::report::last_lines;

/// Extension of the time limit of a machine that runs all tests of an image. The limit only bounds how long a
/// test hangs.
const MORE_TIME: Duration = Duration::from_secs(20 * 60);

/// Maximum number of machines that are started to continue with the other tests, after a machine has ended
/// during a test.
const MAX_RESTARTS: usize = 8;

/// Number of the last console lines that are shown if a machine has ended during a test.
const LAST_LINES: usize = 20;

/// Arguments that make libtest report in JSON.
const REPORT: [&str; 3] = ["--format=json", "-Zunstable-options", "--exact"];

/// The tests of an image that have run.
#[derive(Debug, Default)]
pub(super) struct TestRun {
    outcomes: Outcomes,
    /// Tests that were running when a machine ended, and the machine's last output.
    ended: Vec<(BTreeSet<String>, String)>,
    /// Other errors: a machine whose end contradicts its report, and tests without a result.
    problems: Vec<String>,
    skipped: usize,
}

impl TestRun {
    /// Fails if a test has failed, or a machine's report is wrong.
    pub(super) fn check(&self) -> Result<()> {
        let failed = self.outcomes.failed.iter().map(|(name, output)| format!("{name}\n{output}\n"));
        let ended =
            self.ended.iter().map(|(names, end)| format!("the machine ended during {names:?}\n{end}\n"));
        let problems: Vec<_> = failed.chain(ended).chain(self.problems.iter().cloned()).collect();
        ensure!(problems.is_empty(), "{}", problems.concat());
        Ok(())
    }

    fn failures(&self) -> usize {
        self.outcomes.failed.len() + self.ended.len() + self.problems.len()
    }
}

impl fmt::Display for TestRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { passed, ignored, .. } = &self.outcomes;
        let (passed, ignored, skipped) = (passed.len(), ignored.len(), self.skipped);
        write!(out, "{passed} passed, {} failed, {skipped} skipped, {ignored} ignored", self.failures())
    }
}

/// Numbers of tests of all images, by result.
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

/// Runs the tests of an image except the skipped tests.
pub(super) fn run(platform: &TestPlatform<'_>, image: &TestImage, skipped: &Skipped) -> Result<TestRun> {
    run_all(&names(platform, image)?, skipped, |left_out| {
        let arguments = left_out.iter().flat_map(|name| ["--skip", name]);
        let guest = guest(platform, image, &REPORT.into_iter().chain(arguments).collect::<Vec<_>>());
        // If a machine reaches the time limit, it is killed, and the error contains its report.
        match guest.more_time(MORE_TIME).run() {
            Ok(outcome) => (outcome.code, outcome.text()),
            Err(error) => (None, format!("{error:#}")),
        }
    })
}

/// Runs tests, except the skipped tests, in machines. If a test ends the machine, another machine runs the
/// remaining tests. `machine` gets the names of tests to leave out, runs all other tests, and returns the
/// exit code and the report.
fn run_all(
    names: &BTreeSet<String>,
    skipped: &Skipped,
    mut machine: impl FnMut(&BTreeSet<String>) -> (Option<i32>, String),
) -> Result<TestRun> {
    ensure!(!names.is_empty(), "the image has no tests");
    let mut left_out: BTreeSet<_> =
        names.iter().filter(|name| skipped.contains_key(*name)).cloned().collect();
    let mut run = TestRun { skipped: left_out.len(), ..TestRun::default() };
    for _ in 0..=MAX_RESTARTS {
        let (code, text) = machine(&left_out);
        let outcomes = Outcomes::parse(&text);
        let (running, problem) = (outcomes.running.clone(), wrong_end(&outcomes, code));
        let is_last = outcomes.verdict.is_some() || running.is_empty();
        left_out.extend(run.merge(outcomes));
        run.problems.extend(problem.map(|problem| format!("{problem}\n{}\n", last_lines(&text, LAST_LINES))));
        if is_last {
            break;
        }
        left_out.extend(running.iter().cloned());
        run.ended.push((running, format!("{code:?}: {}", last_lines(&text, LAST_LINES))));
    }
    let unknown: Vec<_> = names.symmetric_difference(&left_out).collect();
    if !unknown.is_empty() {
        run.problems.push(format!(
            "{} of {} tests have no outcome: {unknown:?}\n",
            unknown.len(),
            names.len()
        ));
    }
    Ok(run)
}

/// Returns a message if the exit code of a machine contradicts its report. A machine that ended during a test
/// has no verdict that could be contradicted.
fn wrong_end(outcomes: &Outcomes, code: Option<i32>) -> Option<String> {
    let Some(verdict) = outcomes.verdict else {
        return outcomes.running.is_empty().then(|| format!("the machine ended with {code:?} between tests"));
    };
    let failed = outcomes.failed.len();
    let is_right = code == Some(verdict.code())
        && outcomes.running.is_empty()
        && (verdict == Verdict::Failed) == (failed > 0);
    (!is_right).then(|| {
        let running = &outcomes.running;
        format!("libtest's verdict was {verdict:?} with {failed} failed tests, {running:?} running, and exit code {code:?}")
    })
}

impl TestRun {
    /// Adds the results that a machine reported. Returns the names of the tests that need not run again.
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

/// Returns the names of an image's tests.
fn names(platform: &TestPlatform<'_>, image: &TestImage) -> Result<BTreeSet<String>> {
    let outcome = guest(platform, image, &["--list", "--format=terse"]).run()?;
    outcome.check(0, &[])?;
    Ok(events::names(&String::from_utf8_lossy(&outcome.output)))
}

/// Fails if a test in the list of skipped tests does not exist.
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

/// Runs each skipped test of an image in a separate machine. Returns the tests that pass.
pub(super) fn passing(
    platform: &TestPlatform<'_>,
    image: &TestImage,
    skipped: &Skipped,
) -> Result<Vec<String>> {
    let names = names(platform, image)?;
    let mut passing = Vec::new();
    for name in skipped.keys().filter(|name| names.contains(*name)) {
        // A machine whose test hangs is killed, and the run returns an error. Then the test has not passed.
        let outcome = guest(platform, image, &[REPORT.as_slice(), &[name]].concat()).run();
        let text = outcome.map_or_else(|error| format!("{error:#}"), |outcome| outcome.text());
        passing.extend(Outcomes::parse(&text).passed);
    }
    Ok(passing)
}

fn guest<'a>(platform: &'a TestPlatform<'_>, image: &TestImage, arguments: &[&str]) -> TestGuest<'a> {
    // The report in JSON is an unstable option of libtest, which this variable permits.
    platform.guest_of(&image.file, arguments).cpus(2).memory(1024).variable("RUSTC_BOOTSTRAP=1")
}

#[cfg(test)]
mod tests {
    use super::{MAX_RESTARTS, Outcomes, Skipped, TestRun, Totals, run_all};
    use std::collections::{BTreeSet, VecDeque};

    fn outcomes(passed: &str, failed: &str) -> Outcomes {
        Outcomes {
            passed: [passed.to_owned()].into(),
            failed: vec![(failed.to_owned(), "why".to_owned())],
            ..Outcomes::default()
        }
    }

    const PASSED: &str = r#"{ "type": "test", "event": "started", "name": "a" }
{ "type": "test", "name": "a", "event": "ok" }
"#;
    const FAILED: &str = r#"{ "type": "test", "event": "started", "name": "b" }
{ "type": "test", "name": "b", "event": "failed", "stdout": "why" }
"#;
    const BEGUN: &str = r#"{ "type": "test", "event": "started", "name": "b" }
page fault
"#;
    const OK: &str = r#"{ "type": "suite", "event": "ok", "passed": 1, "failed": 0, "ignored": 0, "measured": 0, "filtered_out": 0, "exec_time": 0.0005 }
"#;
    const NOT_OK: &str = r#"{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 0, "measured": 0, "filtered_out": 0, "exec_time": 0.0005 }
"#;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Runs the tests `a` and `b`, and skips the test `skipped`, in machines with these exit codes and
    /// reports.
    fn run_of(machines: &[(Option<i32>, &[&str])]) -> TestRun {
        let mut machines: VecDeque<_> =
            machines.iter().map(|(code, report)| (*code, report.concat())).collect();
        let skipped: Skipped = ["skipped", "other"].map(|name| (name.to_owned(), String::new())).into();
        run_all(&set(&["a", "b", "skipped"]), &skipped, |left_out| {
            assert!(left_out.contains("skipped") && !left_out.contains("other"));
            machines.pop_front().unwrap()
        })
        .unwrap()
    }

    #[test]
    fn verdict_that_fits_the_exit_code_and_the_tests_is_accepted() {
        let b_passes = FAILED.replace("failed", "ok");
        let run = run_of(&[(Some(0), &[PASSED, &b_passes, OK])]);
        run.check().unwrap();
        assert_eq!(run.to_string(), "2 passed, 0 failed, 1 skipped, 0 ignored");
        let run = run_of(&[(Some(101), &[PASSED, FAILED, NOT_OK])]);
        assert_eq!(run.check().unwrap_err().to_string(), "b\nwhy\n");
        let run = run_of(&[(Some(1), &[PASSED, BEGUN]), (Some(0), &[OK])]);
        assert!(run.problems.is_empty() && run.ended[0].0 == set(&["b"]), "{run:?}");
    }

    #[test]
    fn machine_whose_end_contradicts_its_report_is_a_failure() {
        let b_passes = FAILED.replace("failed", "ok");
        let reports: [(Option<i32>, &[&str], &str); 7] = [
            (Some(1), &[PASSED, &b_passes, OK], "exit code Some(1)"),
            (None, &[PASSED, &b_passes, OK], "exit code None"),
            (Some(0), &[PASSED, FAILED, NOT_OK], "exit code Some(0)"),
            (Some(101), &[PASSED, &b_passes, NOT_OK], "Failed with 0 failed tests"),
            (Some(0), &[PASSED, FAILED, OK], "Ok with 1 failed tests"),
            (Some(0), &[PASSED, BEGUN, OK], "{\"b\"} running"),
            (Some(0), &[PASSED, OK], "1 of 3 tests have no outcome: [\"b\"]"),
        ];
        for (code, report, text) in reports {
            let message = run_of(&[(code, report)]).check().unwrap_err().to_string();
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn end_between_tests_does_not_hide_the_test_that_ended_a_machine_before() {
        let run = run_of(&[(None, &[BEGUN]), (Some(3), &["no memory\n"])]);
        let message = run.check().unwrap_err().to_string();
        for text in
            ["ended during {\"b\"}\nNone: ", "page fault", "Some(3) between tests\nno memory", "[\"a\"]"]
        {
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn tests_after_the_last_restart_have_no_outcome() {
        let run = run_of(&[(None, [BEGUN].as_slice()); MAX_RESTARTS + 1]);
        assert_eq!(run.ended.len(), MAX_RESTARTS + 1);
        assert!(run.problems[0].contains("[\"a\"]"), "{run:?}");
    }

    #[test]
    fn image_without_tests_is_an_error() {
        assert!(run_all(&set(&[]), &Skipped::new(), |_| (Some(0), OK.to_owned())).is_err());
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
