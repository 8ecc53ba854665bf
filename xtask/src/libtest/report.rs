//! Results of tests, in libtest's formats `pretty` and `terse`.
//!
//! Tools and users read the output of `cargo test`, so it must look exactly as if libtest had printed it:
//! names, verdicts, colors, the outputs of failed tests, and the summary. `pretty` has a line for each test;
//! `terse` has a character for each test, in lines of 88 characters. If several tests run at a time, `pretty`
//! prints a line when its test has ended. If tests run one after the other, it prints the name when a test
//! starts, and the verdict when the test has ended.

use std::io::{self, Write};
use std::time::Instant;

use super::{Test, Verdict};

/// Time in seconds after which a test that still runs is reported as slow. It is reported only once.
pub(super) const WARNING_SECONDS: u64 = 60;

/// Number of results in a line of the terse format.
const COLUMNS: usize = 88;

const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;

/// Style in which results are printed.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of libtest")]
pub(super) struct Style {
    /// Print only a character for each test.
    pub(super) is_terse: bool,
    pub(super) has_color: bool,
    /// Also print the output of tests that pass.
    pub(super) shows_output: bool,
    /// Tests run one at a time, and the name of a test is printed when it starts.
    pub(super) is_sequential: bool,
}

/// Name and output of a test.
type TestOutput = (String, Vec<u8>);

/// Prints results and counts them.
#[derive(Debug)]
pub(super) struct Report<W> {
    out: W,
    style: Style,
    total: usize,
    column: usize,
    ignored: usize,
    passed: Vec<TestOutput>,
    failed: Vec<TestOutput>,
    start: Instant,
}

impl<W: Write> Report<W> {
    /// Creates the report of `total` tests.
    pub(super) fn new(out: W, style: Style, total: usize) -> Self {
        let (passed, failed) = (Vec::new(), Vec::new());
        Self { out, style, total, column: 0, ignored: 0, passed, failed, start: Instant::now() }
    }

    /// Prints the first line.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let noun = if self.total == 1 { "test" } else { "tests" };
        writeln!(self.out, "\nrunning {} {noun}", self.total)?;
        self.out.flush()
    }

    /// Reports that a test starts.
    pub(super) fn test_starts(&mut self, test: &Test) -> io::Result<()> {
        if self.style.is_sequential && !self.style.is_terse {
            self.print_name(test)?;
        }
        self.out.flush()
    }

    /// Reports that a test has been running for [`WARNING_SECONDS`].
    pub(super) fn test_is_slow(&mut self, test: &Test) -> io::Result<()> {
        if !self.style.is_terse {
            writeln!(self.out, "test {} has been running for over {WARNING_SECONDS} seconds", test.name)?;
        }
        self.out.flush()
    }

    /// Reports how a test ended.
    pub(super) fn test_ends(&mut self, test: &Test, verdict: Verdict, output: Vec<u8>) -> io::Result<()> {
        if self.style.is_terse {
            self.print_terse(test, verdict)?;
        } else {
            if !self.style.is_sequential {
                self.print_name(test)?;
            }
            self.print_verdict(test, verdict)?;
        }
        match verdict {
            Verdict::Passed => self.passed.push((test.name.clone(), output)),
            Verdict::Failed => self.failed.push((test.name.clone(), output)),
            Verdict::Ignored => self.ignored += 1,
        }
        self.out.flush()
    }

    /// Prints outputs and the summary. Returns true if no test failed.
    pub(super) fn finish(mut self, filtered_out: usize) -> io::Result<bool> {
        let (passed, failed) = (std::mem::take(&mut self.passed), std::mem::take(&mut self.failed));
        if self.style.shows_output {
            self.print_outputs("successes", &passed)?;
        }
        if !failed.is_empty() {
            self.print_outputs("failures", &failed)?;
        }
        write!(self.out, "\ntest result: ")?;
        let (word, color) = if failed.is_empty() { ("ok", GREEN) } else { ("FAILED", RED) };
        self.print_colored(word, color)?;
        writeln!(
            self.out,
            ". {} passed; {} failed; {} ignored; 0 measured; {filtered_out} filtered out; finished in {:.2}s\n",
            passed.len(),
            failed.len(),
            self.ignored,
            self.start.elapsed().as_secs_f64()
        )?;
        self.out.flush()?;
        Ok(failed.is_empty())
    }

    fn print_name(&mut self, test: &Test) -> io::Result<()> {
        let separator = if test.mode.is_empty() || test.ignored.is_some() { "" } else { " - " };
        let mode = if separator.is_empty() { "" } else { &test.mode };
        write!(self.out, "test {}{separator}{mode} ... ", test.name)
    }

    fn print_verdict(&mut self, test: &Test, verdict: Verdict) -> io::Result<()> {
        match (verdict, test.ignored.as_deref()) {
            (Verdict::Passed, _) => self.print_colored("ok", GREEN)?,
            (Verdict::Failed, _) => self.print_colored("FAILED", RED)?,
            (Verdict::Ignored, None | Some("")) => self.print_colored("ignored", YELLOW)?,
            (Verdict::Ignored, Some(reason)) => self.print_colored(&format!("ignored, {reason}"), YELLOW)?,
        }
        writeln!(self.out)
    }

    fn print_terse(&mut self, test: &Test, verdict: Verdict) -> io::Result<()> {
        let (character, color) = match verdict {
            Verdict::Passed => (".", GREEN),
            Verdict::Ignored => ("i", YELLOW),
            Verdict::Failed => {
                if self.column != 0 {
                    self.end_terse_line(self.count())?;
                }
                write!(self.out, "{} --- ", test.name)?;
                self.print_colored("FAILED", RED)?;
                return writeln!(self.out);
            }
        };
        self.print_colored(character, color)?;
        self.column += 1;
        if self.column == COLUMNS - 1 { self.end_terse_line(self.count() + 1) } else { Ok(()) }
    }

    fn end_terse_line(&mut self, count: usize) -> io::Result<()> {
        self.column = 0;
        writeln!(self.out, " {count}/{}", self.total)
    }

    /// Number of tests that have ended.
    fn count(&self) -> usize {
        self.passed.len() + self.failed.len() + self.ignored
    }

    fn print_colored(&mut self, text: &str, color: u8) -> io::Result<()> {
        if self.style.has_color {
            write!(self.out, "\x1b[{color}m{text}\x1b[0m")
        } else {
            write!(self.out, "{text}")
        }
    }

    fn print_outputs(&mut self, title: &str, outputs: &[TestOutput]) -> io::Result<()> {
        writeln!(self.out, "\n{title}:")?;
        let mut printed = outputs.iter().filter(|(_, output)| !output.is_empty()).peekable();
        if printed.peek().is_some() {
            writeln!(self.out)?;
        }
        for (name, output) in printed {
            writeln!(self.out, "---- {name} stdout ----")?;
            self.out.write_all(String::from_utf8_lossy(output).as_bytes())?;
            writeln!(self.out)?;
        }
        writeln!(self.out, "\n{title}:")?;
        let mut names: Vec<_> = outputs.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.into_iter().try_for_each(|name| writeln!(self.out, "    {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Report, Style};
    use crate::libtest::{Test, Verdict};

    fn test(name: &str) -> Test {
        Test { name: name.to_owned(), ..Test::default() }
    }

    fn report(style: Style, results: &[(Test, Verdict, &str)]) -> (String, bool) {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, style, results.len());
        report.start().unwrap();
        for (test, verdict, output) in results {
            report.test_starts(test).unwrap();
            report.test_ends(test, *verdict, output.as_bytes().to_vec()).unwrap();
        }
        let success = report.finish(2).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (text, time) = text.rsplit_once("; finished in ").unwrap();
        assert!(time.ends_with("s\n\n"), "{time}");
        (text.to_owned(), success)
    }

    fn results() -> [(Test, Verdict, &'static str); 4] {
        let should_panic = Test { mode: "should panic".into(), ..test("c") };
        let ignored = Test { ignored: Some("later".into()), mode: "should panic".into(), ..test("d") };
        [
            (test("b"), Verdict::Failed, "message of b\n"),
            (test("a"), Verdict::Failed, ""),
            (should_panic, Verdict::Passed, "output of c\n"),
            (ignored, Verdict::Ignored, ""),
        ]
    }

    #[test]
    fn failures_are_printed_as_by_libtest() {
        let expected = "\nrunning 4 tests\ntest b ... FAILED\ntest a ... FAILED\ntest c - should panic ... ok\n\
            test d ... ignored, later\n\nfailures:\n\n---- b stdout ----\nmessage of b\n\n\nfailures:\n    a\n    b\n\n\
            test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 2 filtered out";
        assert_eq!(report(Style::default(), &results()), (expected.to_owned(), false));
        let sequential = Style { is_sequential: true, ..Style::default() };
        assert_eq!(report(sequential, &results()).0, expected);
    }

    #[test]
    fn successes_are_printed_on_request() {
        let style = Style { shows_output: true, ..Style::default() };
        let (text, success) = report(style, &results()[2..]);
        let expected = "\nsuccesses:\n\n---- c stdout ----\noutput of c\n\n\nsuccesses:\n    c\n\n\
            test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out";
        assert!(success && text.ends_with(expected), "{text}");
    }

    #[test]
    fn terse_lines_are_as_by_libtest() {
        let style = Style { is_terse: true, ..Style::default() };
        let mut results = vec![(test("a"), Verdict::Passed, ""); COLUMNS];
        results.push((test("b"), Verdict::Failed, "output"));
        results.push((test("c"), Verdict::Ignored, ""));
        let (text, _) = report(style, &results);
        let expected = format!(
            "\nrunning 90 tests\n{} 87/90\n. 88/90\nb --- FAILED\ni\nfailures:\n\n---- b stdout ----\noutput\n\n\
             failures:\n    b\n",
            ".".repeat(87)
        );
        assert!(text.starts_with(&expected), "{text}");
    }

    #[test]
    fn colors_are_printed_on_request() {
        let style = Style { has_color: true, ..Style::default() };
        let (text, _) = report(style, &results());
        assert!(text.contains("test b ... \x1b[31mFAILED\x1b[0m\n"), "{text}");
        assert!(text.contains("... \x1b[33mignored, later\x1b[0m\n"), "{text}");
    }
}
