//! Tests of programs that fail, and of guarantees of std: `kernel/tests/faults`.
//!
//! The argument of the program selects a fault, such as a null pointer, a stack overflow, a panic or an
//! allocation that is too large. The tables list the expected exit code and texts. Exit codes are those of a
//! Linux shell: 128 plus the number of the signal that Linux would send, for example 139 for SIGSEGV. Most of
//! the other arguments check guarantees of std, and end with exit code 0.

use anyhow::{Context, Result, ensure};
use hermit_toolchain::build;
use tempfile::TempDir;

use crate::addr2line;
use crate::test::child::Outcome;
use crate::test::platform::{TestGuest, TestPlatform};
use crate::test::schedule::Tests;

/// Exit code after a panic of the main thread.
const PANICKED: i32 = 101;

/// Exit code after a panic in a program whose panics abort.
const ABORTED: i32 = 134;

/// Argument of `kernel/tests/faults`, exit code, and texts that it prints.
const FAULTS: [(&str, i32, &[&str]); 28] = [
    ("panic", PANICKED, &["thread 'main'", "panicked at"]),
    (
        "null",
        139,
        &[
            "on CPU 0, vector 14",
            "thread 'main' wrote to 0x0, which is not mapped",
            "backtrace",
            " faults::faults::null+0x",
            " faults::main+0x",
            " hermit_kernel::program::run+0x",
        ],
    ),
    ("null-read", 139, &["thread 'main' read from 0x0, which is not mapped"]),
    ("divide", 136, &["thread 'main' divided by zero"]),
    ("illegal", 132, &["thread 'main' executed an illegal instruction"]),
    ("stack-hole", 132, &["thread 'main' executed an illegal instruction", " faults::faults::stack_hole+0x"]),
    (
        "recursion",
        134,
        &[
            "thread 'main' has overflowed its stack",
            "stack overflow",
            " faults::faults::recursion::descend+0x",
        ],
    ),
    ("allocate", 134, &["memory allocation of 107374182400 bytes failed"]),
    ("try-allocate", 0, &["refused"]),
    ("abort", 134, &[]),
    ("write-code", 139, &["thread 'main' wrote to 0x", "read-only"]),
    ("write-rodata", 139, &["thread 'main' wrote to 0x", "read-only"]),
    ("execute-data", 139, &["thread 'main' jumped to 0x", "no code"]),
    ("step", 0, &["ok"]),
    ("float", 0, &["ok"]),
    ("tls", 0, &["ok"]),
    ("time", 0, &["ok"]),
    ("entropy", 0, &["ok"]),
    ("environment", 0, &["ok"]),
    ("exit-destructor", 3, &["destroyed"]),
    ("exit-twice", ABORTED, &["std::process::exit called re-entrantly"]),
    ("memory", 0, &["ok"]),
    ("io-errors", 0, &["ok", "open: ", "bind: ", "spawn: "]),
    ("thread-null", 139, &["thread 'worker' wrote to 0x0, which is not mapped"]),
    ("thread-panic", 1, &["thread 'worker' ", "panicked at", "the thread panicked"]),
    ("thread-long-name", 139, &["thread 'a name of which 29 bytes stay' wrote to 0x0"]),
    ("no-such-fault", 2, &["usage"]),
    ("exit", 2, &["usage"]),
];

/// Faults in a program with several threads, on several CPUs. Only one fault is reported, even if several
/// threads fault.
const THREAD_FAULTS: [(&str, i32, &str); 5] = [
    ("thread-null-busy", 139, "thread 'worker' wrote to 0x0, which is not mapped"),
    ("thread-recursion", 134, "thread 'worker' has overflowed its stack"),
    ("two-faults", 139, "thread 'worker' wrote to 0x0, which is not mapped"),
    ("nowhere-stack", 139, "thread 'main' wrote to 0x4ff8, which is not mapped"),
    ("preempted-nowhere", 139, "thread 'worker' wrote to 0x"),
];

/// Checks of large blocks of the heap, in guests with 128 MiB: argument, exit code, and texts that are
/// printed.
const LARGE_BLOCKS: [(&str, i32, &[&str]); 3] = [
    ("fragmented", 0, &["ok"]),
    ("growing", 0, &["ok"]),
    ("grow-without-end", ABORTED, &["used more memory than there is"]),
];

/// Arguments in these tables that are also tested on a slow host. Others, such as `recursion`, would take
/// seconds there.
const ON_SLOW_HOSTS: [&str; 12] = [
    "panic",
    "null",
    "divide",
    "illegal",
    "step",
    "abort",
    "write-code",
    "execute-data",
    "entropy",
    "time",
    "thread-null",
    "two-faults",
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    let wanted = |fault: &str| !platform.is_slow() || ON_SLOW_HOSTS.contains(&fault);
    for (fault, code, texts) in FAULTS.into_iter().filter(|(fault, ..)| wanted(fault)) {
        // Panics abort in soft-float images.
        let code = if platform.is_slow() && code == PANICKED { ABORTED } else { code };
        tests.add(format!("{platform}: faults {fault}"), move || {
            ends(&platform.guest("faults", &[fault]), code, texts)
        });
    }
    for (check, code, texts) in LARGE_BLOCKS.into_iter().filter(|_| !platform.is_slow()) {
        tests.add(format!("{platform}, 128 MiB: faults {check}"), move || {
            ends(&platform.guest("faults", &[check]).memory(128), code, texts)
        });
    }
    for cpus in [1, 2] {
        for (fault, code, text) in THREAD_FAULTS.into_iter().filter(|(fault, ..)| wanted(fault)) {
            tests.add(format!("{platform}, CPUs {cpus}: faults {fault}"), move || {
                one_report(&platform.guest("faults", &[fault]).cpus(cpus), code, text)
            });
        }
    }
    tests.add(format!("{platform}: random numbers differ from run to run"), move || {
        differs(&platform.guest("faults", &["entropy"]), 0, "random number:")
    });
    tests.add(format!("{platform}: addresses differ from run to run"), move || {
        differs(&platform.guest("faults", &["null"]), 139, "image at")
    });
    tests.add(format!("{platform}: a fault of an image without symbols"), move || without_symbols(platform));
    tests.add(format!("{platform}: backtraces of panics"), move || panics(platform));
}

/// A guest ends as expected. All messages about the failure, those of the program and those of the kernel,
/// are on standard error.
fn ends(guest: &TestGuest<'_>, code: i32, texts: &[&str]) -> Result<()> {
    let outcome = guest.expect(code, texts)?;
    let (is_failure, text) = (code != 0, outcome.error_text());
    let is_on_stderr = outcome.output.is_empty() && texts.iter().all(|expected| text.contains(expected));
    ensure!(!is_failure || is_on_stderr, "a report is not on standard error\n{outcome}");
    Ok(())
}

/// A guest ends with exactly one report of a fault.
fn one_report(guest: &TestGuest<'_>, code: i32, text: &str) -> Result<()> {
    let text = guest.expect(code, &[text, "backtrace"])?.text();
    // Searches for this longer text, because names of functions in the backtrace contain the word
    // "backtrace".
    let reports = text.matches("; backtrace, ").count();
    ensure!(reports == 1, "there are {reports} reports\n{text}");
    Ok(())
}

/// The output line that starts with `prefix` differs between two runs.
fn differs(guest: &TestGuest<'_>, code: i32, prefix: &str) -> Result<()> {
    let line = || {
        let text = guest.expect(code, &[prefix])?.text();
        let line = text.lines().find(|line| line.trim_start().starts_with(prefix));
        line.map(str::to_owned).with_context(|| format!("no line starts with {prefix:?} in\n{text}"))
    };
    let (one, two) = (line()?, line()?);
    ensure!(one != two, "both runs printed {one}");
    Ok(())
}

/// A panic prints a backtrace if the environment requests it.
fn panics(platform: &TestPlatform<'_>) -> Result<()> {
    let note = "run with `RUST_BACKTRACE=1` environment variable";
    let [main, thread] = if platform.is_slow() { [ABORTED; 2] } else { [PANICKED, 1] };
    let silent = platform.guest("faults", &["panic"]).expect(main, &[note])?.text();
    ensure!(!silent.contains("stack backtrace"), "there is a backtrace\n{silent}");
    let short = platform.guest("faults", &["panic"]).variable("RUST_BACKTRACE=1");
    let expected = ["stack backtrace:\n   0: ", " faults::faults::panic\n", "run with `RUST_BACKTRACE=full`"];
    let text = short.expect(main, &expected)?.text();
    ensure!(!text.contains("default_hook"), "the functions that print are not omitted\n{text}");
    let full = platform.guest("faults", &["thread-panic"]).variable("RUST_BACKTRACE=full");
    let expected = ["stack backtrace:\n   0: ", " - std::panicking::default_hook\n", " - faults::"];
    has_lines(platform, &full.expect(thread, &expected)?)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("faults");
    build::strip(&platform.images.image("faults"), &stripped)?;
    let stripped = platform.guest_of(&stripped, &["panic"]).variable("RUST_BACKTRACE=1");
    stripped.expect(main, &["stack backtrace:\n   0: ", " - <unknown>\n"]).map(drop)
}

/// The image's debugging information has the source lines for the addresses in a backtrace.
fn has_lines(platform: &TestPlatform<'_>, outcome: &Outcome) -> Result<()> {
    let mut text = Vec::new();
    addr2line::annotate(&platform.images.image("faults"), outcome.text().as_bytes(), &mut text)?;
    let text = String::from_utf8_lossy(&text);
    ensure!(text.contains("/faults/src/faults.rs:"), "no line of the program is found\n{text}");
    Ok(())
}

/// The backtrace of a stripped image has addresses instead of names.
fn without_symbols(platform: &TestPlatform<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("faults");
    build::strip(&platform.images.image("faults"), &stripped)?;
    let text = platform.guest_of(&stripped, &["null"]).expect(139, &["backtrace", "   0: 0x"])?.text();
    ensure!(!text.contains("faults::"), "a stripped image has names\n{text}");
    Ok(())
}
