//! The options of libtest that the runner implements.
//!
//! In a test executable of Linux, libtest parses the arguments of `cargo test -- ARGUMENTS` itself. Here the
//! runner replaces a part of libtest, because it boots a machine for each test. The runner selects tests,
//! limits how many run at a time, and prints the results. So it must understand the arguments in the same way
//! as libtest. If it does not implement an argument, [`Options::parse`] returns `None`, and libtest handles
//! all arguments in a single machine.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::thread;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use super::report::Style;
use super::{Test, VmNeeds};

/// Options that the runner implements. Any other, and whatever libtest rejects, fails to parse.
#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(super) struct Options {
    filters: Vec<String>,
    #[arg(long)]
    exact: bool,
    #[arg(long)]
    skip: Vec<String>,
    #[arg(long)]
    ignored: bool,
    #[arg(long, conflicts_with = "ignored")]
    include_ignored: bool,
    /// Run tests and not benchmarks, which is the default.
    #[arg(long)]
    test: bool,
    #[arg(long, alias = "nocapture")]
    no_capture: bool,
    #[arg(long)]
    show_output: bool,
    #[arg(short, long)]
    quiet: bool,
    #[arg(long, value_enum, default_value_t, conflicts_with = "quiet")]
    format: Format,
    #[arg(long, value_enum, default_value_t)]
    color: Color,
    #[arg(long)]
    test_threads: Option<NonZero<usize>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Pretty,
    Terse,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Options {
    /// Parses the arguments of a test executable, and the variables that libtest reads. Returns `None` if
    /// libtest itself must handle them.
    pub(super) fn parse(arguments: &[OsString]) -> Result<Option<Self>> {
        let Ok(mut options) = Self::try_parse_from(arguments) else { return Ok(None) };
        options.no_capture |= env::var_os("RUST_TEST_NOCAPTURE").is_some_and(|value| value != "0");
        if options.test_threads.is_none()
            && let Ok(number) = env::var("RUST_TEST_THREADS")
        {
            let number = number.parse();
            options.test_threads = Some(number.context("RUST_TEST_THREADS must be a number from 1 on")?);
        }
        Ok(Some(options))
    }

    /// Returns true if the output of a test is kept until the test has ended. It is then printed only if the
    /// test fails, or if an option requests it.
    pub(super) fn captures(&self) -> bool {
        !self.no_capture
    }

    /// Returns the tests that are run or reported as ignored, and the number of tests that are filtered out.
    pub(super) fn select(&self, tests: Vec<Test>) -> (Vec<Test>, usize) {
        let all = tests.len();
        let mut tests: Vec<_> = tests.into_iter().filter(|test| self.selects(test)).collect();
        if self.ignored || self.include_ignored {
            tests.iter_mut().for_each(|test| test.ignored = None);
        }
        let rest = all - tests.len();
        (tests, rest)
    }

    fn selects(&self, test: &Test) -> bool {
        let fits = |filter: &String| {
            if self.exact { test.name == *filter } else { test.name.contains(filter.as_str()) }
        };
        (self.filters.is_empty() || self.filters.iter().any(fits))
            && !self.skip.iter().any(fits)
            && (!self.ignored || test.ignored.is_some())
    }

    /// Returns the number of machines that run at a time. By default, all these machines together have as
    /// many CPUs as the host. Exclusive machines ([`VmNeeds::is_exclusive`]) run one after the other.
    pub(super) fn jobs(&self, vm: &VmNeeds) -> Result<usize> {
        if vm.is_exclusive {
            return Ok(1);
        }
        if let Some(threads) = self.test_threads {
            return Ok(threads.get());
        }
        let host = thread::available_parallelism().context("cannot count the CPUs of this host")?;
        Ok((host.get() / vm.cpus).max(1))
    }

    /// Returns how results are printed.
    pub(super) fn style(&self, jobs: usize) -> Style {
        Style {
            is_terse: self.quiet || self.format == Format::Terse,
            has_color: match self.color {
                Color::Auto => self.captures() && io::stdout().is_terminal(),
                Color::Always => true,
                Color::Never => false,
            },
            shows_output: self.show_output,
            is_sequential: jobs == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, Test, VmNeeds};
    use std::ffi::OsString;

    fn parse(words: &str) -> Option<Options> {
        let words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
        Options::parse(&words).unwrap()
    }

    fn test(name: &str, ignored: bool) -> Test {
        Test { name: name.to_owned(), ignored: ignored.then(String::new), ..Test::default() }
    }

    /// Returns the names of the selected tests, with ignored tests in parentheses, and the number of the
    /// other tests.
    fn select(words: &str) -> (String, usize) {
        let tests =
            vec![test("a::one", false), test("a::two", true), test("b::one", false), test("one", true)];
        let (tests, rest) = parse(words).unwrap().select(tests);
        let shown = tests.iter().map(|test| match test.ignored {
            Some(_) => format!("({})", test.name),
            None => test.name.clone(),
        });
        (shown.collect::<Vec<_>>().join(" "), rest)
    }

    #[test]
    fn select_filters_as_libtest_does() {
        for (words, names, rest) in [
            ("", "a::one (a::two) b::one (one)", 0),
            ("one", "a::one b::one (one)", 1),
            ("one --exact", "(one)", 3),
            ("a:: b::", "a::one (a::two) b::one", 1),
            ("--skip one", "(a::two)", 3),
            ("--skip a:: --skip=b::", "(one)", 3),
            ("a:: --skip two", "a::one", 3),
            ("--exact a::one --skip one", "a::one", 3),
            ("--ignored", "a::two one", 2),
            ("--include-ignored a::", "a::one a::two", 2),
            ("none", "", 4),
        ] {
            assert_eq!(select(words), (names.to_owned(), rest), "{words}");
        }
    }

    #[test]
    fn libtest_handles_what_the_runner_does_not_implement() {
        for words in [
            "--list",
            "--help",
            "-h",
            "--bench",
            "--format json",
            "--format=junit -Z unstable-options",
            "--logfile x",
            "--shuffle",
            "--no-such-option",
            "--test-threads 0",
            "--test-threads x",
            "--ignored --include-ignored",
            "-q --format terse",
            "--exact --exact",
        ] {
            assert!(parse(words).is_none(), "{words}");
        }
    }

    #[test]
    fn output_options_are_parsed() {
        let style = |words: &str| parse(words).unwrap().style(2);
        assert!(
            style("-q").is_terse && style("--format terse").is_terse && !style("--format pretty").is_terse
        );
        assert!(style("--color=always").has_color && !style("--color never").has_color);
        assert!(style("--show-output").shows_output && !style("").shows_output);
        assert!(!parse("--nocapture").unwrap().captures() && !parse("--no-capture").unwrap().captures());
        assert!(parse("--test").unwrap().captures());
    }

    #[test]
    fn jobs_respects_options_and_shared_resources() {
        let vm = VmNeeds { cpus: 1, is_exclusive: false };
        let jobs = |words: &str, vm: &VmNeeds| parse(words).unwrap().jobs(vm).unwrap();
        assert_eq!(jobs("--test-threads=3", &vm), 3);
        assert_eq!(jobs("--test-threads=3", &VmNeeds { is_exclusive: true, ..vm }), 1);
        assert_eq!(jobs("", &VmNeeds { cpus: 1 << 20, ..vm }), 1);
        assert!(jobs("", &vm) >= 1);
    }
}
