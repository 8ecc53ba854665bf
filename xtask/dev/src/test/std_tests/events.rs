//! Parses libtest's reports in the format `--format json`, with one JSON object per line.

use std::collections::BTreeSet;

use serde_json::Value;

/// Beginning of each line of a report.
const START: &str = "{ \"type\": \"";

/// libtest's verdict about all tests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Failed,
}

impl Verdict {
    /// Returns the exit code with which libtest ends.
    pub(super) const fn code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::Failed => 101,
        }
    }
}

/// The tests that ran in a machine, by their results.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) passed: BTreeSet<String>,
    /// Tests that std's sources mark with `#[ignore]` for the target.
    pub(super) ignored: BTreeSet<String>,
    /// Tests that failed, and their captured output.
    pub(super) failed: Vec<(String, String)>,
    /// Tests that have begun and not ended.
    pub(super) running: BTreeSet<String>,
    /// libtest's verdict. `None` if the machine ended before all tests had ended.
    pub(super) verdict: Option<Verdict>,
}

impl Outcomes {
    /// Parses the standard output of a machine. Output of the tests may be between the lines of the report,
    /// and also in front of the report on the same line.
    pub(super) fn parse(output: &str) -> Self {
        let mut outcomes = Self::default();
        let lines = output.lines().filter_map(|line| line.get(line.find(START)?..));
        for event in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            outcomes.add(&event);
        }
        outcomes
    }

    fn add(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let name = text("name").to_owned();
        match (text("type"), text("event")) {
            ("test", "started") => drop(self.running.insert(name)),
            // libtest reports that the test has run for more than a minute.
            ("test", "timeout") => {}
            ("test", end) => {
                self.running.remove(&name);
                match end {
                    "ok" => drop(self.passed.insert(name)),
                    "ignored" => drop(self.ignored.insert(name)),
                    _ => self.failed.push((name, text("stdout").to_owned())),
                }
            }
            ("suite", "ok") => self.verdict = Some(Verdict::Ok),
            ("suite", "failed") => self.verdict = Some(Verdict::Failed),
            _ => {}
        }
    }
}

/// Parses the names of `--list --format terse`.
///
/// Without `--bench`, libtest runs benchmarks once each, as tests.
pub(super) fn names(output: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let name = [": test", ": benchmark"].into_iter().find_map(|kind| line.strip_suffix(kind))?;
        Some(name.to_owned())
    };
    output.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::{Outcomes, Verdict, names};

    const REPORT: &str = r#"{ "type": "suite", "event": "started", "test_count": 5 }
{ "type": "test", "event": "started", "name": "a::passes" }
{ "type": "test", "event": "started", "name": "a::fails" }
output of a test
more { "type": "test", "name": "a::passes", "event": "ok" }
{ "type": "test", "name": "a::fails", "event": "failed", "stdout": "thread panicked\nat 1\n" }
{ "type": "test", "event": "started", "name": "a::ignored" }
{ "type": "test", "name": "a::ignored", "event": "ignored", "message": "slow" }
{ "type": "test", "event": "started", "name": "a::hangs" }
{ "type": "test", "event": "timeout", "name": "a::hangs" }
"#;

    #[test]
    fn each_test_has_its_outcome() {
        let outcomes = Outcomes::parse(REPORT);
        let set = |name: &str| [name.to_owned()].into();
        let expected = Outcomes {
            passed: set("a::passes"),
            ignored: set("a::ignored"),
            failed: vec![("a::fails".into(), "thread panicked\nat 1\n".into())],
            running: set("a::hangs"),
            verdict: None,
        };
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn verdict_is_in_the_line_of_the_suite() {
        for (end, verdict) in [("ok", Verdict::Ok), ("failed", Verdict::Failed)] {
            let line = format!("{{ \"type\": \"suite\", \"event\": \"{end}\", \"passed\": 1 }}\n");
            assert_eq!(Outcomes::parse(&(REPORT.to_owned() + &line)).verdict, Some(verdict));
        }
        assert_eq!(Outcomes::parse("{ \"type\": \"test\", \"ev"), Outcomes::default());
    }

    #[test]
    fn names_are_those_of_tests_and_benchmarks() {
        let list = "a::b: test\nc - should panic: test\nd: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(names(list), ["a::b", "c - should panic", "d"].map(str::to_owned).into());
    }
}
