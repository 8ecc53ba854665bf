//! Results of tests. They are printed as the tests end, and summed up at the end of the run.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::schedule::{Finished, Tests};

/// Number of tests in the table of the slowest ones.
const SLOWEST: usize = 30;

thread_local! {
    /// Notes of the test that currently runs on this thread.
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Adds a line to the report of the calling test. It is printed below the result of the test.
pub(super) fn note(text: impl Into<String>) {
    NOTES.with_borrow_mut(|notes| notes.push(text.into()));
}

/// Removes and returns the notes of the test that has run on this thread.
pub(super) fn take_notes() -> Vec<String> {
    NOTES.take()
}

/// Returns the last lines of a log or a console, at most `count`. They usually contain the error.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Results of a run of `cargo xtask test`, which consists of steps with tests.
#[derive(Debug)]
pub(crate) struct Report {
    /// Number of steps of the run.
    steps: usize,
    /// Names of the steps so far, and how long each one took.
    step_times: Vec<(String, Duration)>,
    /// Names of the tests that ran, and how long each one took.
    test_times: Vec<(String, Duration)>,
    /// Number of tests that passed.
    passed: usize,
    /// Names of the tests that failed, and of the steps that could not run their tests.
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    /// Returns the report of a run with `steps` steps.
    pub(crate) fn new(steps: usize) -> Self {
        let (step_times, test_times) = (Vec::new(), Vec::new());
        Self { steps, step_times, test_times, passed: 0, failed: Vec::new(), skipped: Vec::new() }
    }

    /// Announces a step, runs it, and records its time.
    pub(crate) fn step<T>(&mut self, name: &str, step: impl FnOnce(&mut Self) -> T) -> T {
        println!("[{}/{}] {name}", self.step_times.len() + 1, self.steps);
        let (start, index) = (Instant::now(), self.step_times.len());
        self.step_times.push((name.to_owned(), Duration::ZERO));
        let result = step(self);
        self.step_times[index].1 = start.elapsed();
        result
    }

    /// Runs tests, and prints their results in the order in which they were added.
    pub(super) fn run(&mut self, tests: Tests<'_>) {
        for (name, reason) in &tests.skipped {
            self.skip(name, reason);
        }
        tests.run(|finished| self.record(finished));
    }

    fn record(&mut self, finished: Finished) {
        let Finished { name, time, notes, result } = finished;
        let verdict = if result.is_ok() { "ok     " } else { "FAILED " };
        println!("{verdict} {name} ({:.2} s)", time.as_secs_f64());
        for note in notes {
            println!("        {note}");
        }
        match result {
            Ok(()) => self.passed += 1,
            Err(error) => {
                println!("{error:#}\n");
                self.failed.push(name.clone());
            }
        }
        self.test_times.push((name, time));
    }

    /// If `result` is an error, because a step could not run its tests, records that the step has failed. The
    /// run continues with the other steps.
    pub(super) fn check(&mut self, step: &str, result: Result<()>) {
        if let Err(error) = result {
            println!("FAILED  {step}\n{error:#}\n");
            self.failed.push(step.to_owned());
        }
    }

    /// Records a test that this machine cannot run.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("skipped {name}: {reason}");
        self.skipped.push(format!("{name}: {reason}"));
    }

    /// Prints the times and the totals. Fails if a test failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        print!("{}", self.times());
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            bail!("{} tests failed", self.failed.len());
        }
        Ok(())
    }

    /// Returns a text with the time of each step and a table of the slowest tests.
    fn times(&mut self) -> String {
        let mut text = "\nsteps:\n".to_owned();
        let mut row = |name: &str, time: Duration| {
            // An error is ignored: a write to a `String` does not fail.
            writeln!(text, "{:9.2} s  {name}", time.as_secs_f64()).unwrap_or_default();
        };
        self.step_times.iter().for_each(|(name, time)| row(name, *time));
        row("in all", self.step_times.iter().map(|(_, time)| *time).sum());
        self.test_times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let slowest = self.test_times.iter().take(SLOWEST);
        let rows = slowest.map(|(name, time)| format!("{:9.2} s  {name}\n", time.as_secs_f64()));
        text.push_str("\nslowest tests:\n");
        text.extend(rows);
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Tests};
    use std::time::Duration;

    #[test]
    fn failures_are_counted() {
        let mut report = Report::new(1);
        let mut tests = Tests::default();
        tests.add("good", || Ok(()));
        tests.add("bad", || anyhow::bail!("as expected"));
        report.run(tests);
        assert_eq!((report.passed, report.test_times.len()), (1, 2));
        assert_eq!(report.failed, ["bad".to_owned()]);
        assert!(report.finish().is_err());
    }

    #[test]
    fn failed_step_is_reported_with_the_tests_of_others() {
        let mut report = Report::new(1);
        let mut tests = Tests::default();
        tests.add("good", || Ok(()));
        report.run(tests);
        report.check("a step", Err(anyhow::anyhow!("as expected")));
        report.check("another step", Ok(()));
        assert_eq!((report.passed, report.failed.as_slice()), (1, &["a step".to_owned()][..]));
        assert!(report.finish().is_err());
    }

    #[test]
    fn skipped_tests_do_not_count() {
        let mut report = Report::new(1);
        report.skip("a ring", "there is no such device");
        assert_eq!((report.test_times.len(), report.failed.len(), report.skipped.len()), (0, 0, 1));
        assert!(report.finish().is_ok());
        assert!(Report::new(0).finish().is_ok());
    }

    #[test]
    fn slowest_tests_come_first() {
        let mut report = Report::new(2);
        report.step("first step", |_| ());
        report.test_times = vec![("a".to_owned(), Duration::from_secs(1)); 40];
        report.test_times.push(("slow".to_owned(), Duration::from_millis(2500)));
        let text = report.times();
        assert!(text.contains("slowest tests:\n     2.50 s  slow\n     1.00 s  a\n"), "{text}");
        assert!(text.starts_with("\nsteps:\n     0.00 s  first step\n     0.00 s  in all\n"), "{text}");
        assert_eq!(text.matches(" s  a\n").count(), 29);
    }
}
