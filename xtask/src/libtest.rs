//! Runs test executables. Each test runs in its own machine, and the results are printed as libtest prints
//! them.
//!
//! A test may abort, by `panic = "abort"` or by its own call, and an abort ends the machine. So if all tests
//! ran in the same machine, the first abort would end all of them. On other systems, libtest can start a
//! process for each test if panics abort: an environment variable names the test that a process runs. Set-up
//! patches libtest so that the variable works in every test executable of the target, even if panics unwind
//! (`xtask/toolchain/patches/std/tests-in-machines.patch`). This module does the work of the parent process.

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

/// First line of the list of tests that a test executable prints. The executable contains this text, so the
/// runner recognises a test executable by it.
const TEST_LIST: &str = "__HERMIT_TEST_LIST 1";

/// Exit code if tests failed, as libtest has it.
const FAILED: u8 = 101;

/// Runs the tests of a test executable, and returns the exit code.
///
/// Returns `None` if the caller has to run the image in a single machine instead. That is the case if the
/// image is another program, or if libtest must handle the arguments itself: to list tests, to run
/// benchmarks, to print formats other than `pretty` and `terse`, or to reject the arguments. `uhyve` is the
/// executable for machines in uhyve.
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
    /// Text that libtest prints after the name, such as `should panic`. It may be empty.
    mode: String,
    /// Reason why the test is ignored, which may be empty. `None` for a test that is not ignored.
    ignored: Option<String>,
}

impl Test {
    /// Parses a line of the list of tests. Returns `None` for any other line.
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
    use hermit_toolchain::workspace;
    use std::fs;

    #[test]
    fn patch_of_libtest_prints_the_same_first_line() {
        let patch = workspace::root().join("xtask/toolchain/patches/std/tests-in-machines.patch");
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
