//! Test executables: each test runs in a machine of its own, and the results are printed as libtest prints
//! them.
//!
//! A test may abort, by `panic = "abort"` or by its own call, and that ends the machine: all tests in one
//! would end with the first that does. libtest can start a process for each test instead, where panics abort:
//! a variable names the test that a process runs. Set-up patches libtest so that this works for every test
//! executable of the target, whether it unwinds or not (`xtask/patches/std/tests-in-machines.patch`); this
//! module has the part of the parent process.

mod machine;
mod options;
mod report;
mod schedule;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use machine::{RUN_ARGS, VmNeeds};
use options::Options;
use report::Report;

/// The first line of the list of tests that a test executable prints. It is part of the executable, by which
/// the runner recognises one.
const TEST_LIST: &str = "__HERMIT_TEST_LIST 1";

/// Exit code if tests failed. libtest has the same.
const FAILED: u8 = 101;

/// Runs the tests of a test executable, and returns the exit code.
///
/// Returns `None` if the caller has to run the image in a single machine instead. That is so for other
/// programs, and for arguments that libtest handles itself: it lists tests, measures, prints formats other
/// than `pretty` and `terse`, or rejects the arguments. `uhyve` is the executable for machines in uhyve.
pub(crate) fn run(
    image: &Path,
    arguments: &[OsString],
    vm: &VmNeeds,
    uhyve: Option<PathBuf>,
) -> Result<Option<u8>> {
    let Some(options) = Options::parse(arguments)? else { return Ok(None) };
    if !is_test_executable(image)? {
        return Ok(None);
    }
    let machine = machine::Machine::new(image, options.captures(), uhyve)?;
    let Some(tests) = machine.list()? else { return Ok(None) };
    let (tests, filtered_out) = options.select(tests);
    let jobs = options.jobs(vm)?;
    let mut report = Report::new(io::stdout().lock(), options.style(jobs), tests.len());
    report.start()?;
    schedule::run(&tests, jobs, &machine, &mut report)?;
    Ok(Some(if report.finish(filtered_out)? { 0 } else { FAILED }))
}

/// Returns true if an image contains the patched libtest.
fn is_test_executable(image: &Path) -> Result<bool> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let mark = TEST_LIST.as_bytes();
    Ok(bytes.windows(mark.len()).any(|window| window == mark))
}

/// A test of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Test {
    /// Path of the function.
    name: String,
    /// Text that libtest prints beside the name, such as `should panic`; may be empty.
    mode: String,
    /// The reason not to run it, which may be empty; `None` for a test that runs.
    ignored: Option<String>,
}

impl Test {
    /// Parses a line of the list of tests; `None` for any other line.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let (name, mode, ignore, reason) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let ignored = (ignore == "ignore").then_some(reason);
        Some(Self { name, mode, ignored })
    }
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Ignored,
}

#[cfg(test)]
mod tests {
    use super::{TEST_LIST, Test, is_test_executable};
    use crate::workspace;
    use std::fs;

    #[test]
    fn patch_of_libtest_prints_the_same_first_line() {
        let patch = workspace::root().join("xtask/patches/std/tests-in-machines.patch");
        assert!(fs::read_to_string(patch).unwrap().contains(&format!("println!(\"{TEST_LIST}\")")));
    }

    #[test]
    fn lines_of_the_list_are_parsed() {
        let test = Test { name: "a::b".into(), mode: "should panic".into(), ignored: None };
        assert_eq!(Test::parse("a::b\tshould panic\t\t"), Some(test));
        let ignored = Test { name: "c".into(), ignored: Some("later".into()), ..Test::default() };
        assert_eq!(Test::parse("c\t\tignore\tlater"), Some(ignored));
        assert_eq!(Test::parse("c\t\tignore\t").unwrap().ignored, Some(String::new()));
        assert_eq!(Test::parse("hermit: warning: something"), None);
    }

    #[test]
    fn only_images_with_libtest_are_test_executables() {
        let folder = tempfile::tempdir().unwrap();
        let is_test = |bytes: &[u8]| {
            let file = folder.path().join("image");
            fs::write(&file, bytes).unwrap();
            is_test_executable(&file).unwrap()
        };
        assert!(is_test(format!("\u{7f}ELF {TEST_LIST}\n").as_bytes()));
        assert!(!is_test(b"\x7fELF __RUST_TEST_INVOKE"));
    }
}
