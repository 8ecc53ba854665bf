//! Programs in virtual machines: what they print and how they end.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermit_interface::exit::NOT_STARTED;
use tempfile::TempDir;

use super::report::Report;
use crate::build::{self, Float, Options};
use crate::qemu::{Board, End, Guest, Input};
use crate::{program, setup, workspace};

/// No guest of these tests takes longer, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The images that the tests boot.
#[derive(Debug)]
pub(crate) struct Examples {
    pub(crate) loader: PathBuf,
    pub(crate) hello_world: PathBuf,
    hello_world_debug: PathBuf,
    faults: PathBuf,
    pub(crate) stdin: PathBuf,
}

impl Examples {
    pub(crate) fn build() -> Result<Self> {
        Ok(Self {
            loader: setup::loader()?,
            hello_world: example("hello_world", true)?,
            hello_world_debug: example("hello_world", false)?,
            faults: example("faults", true)?,
            stdin: example("stdin", true)?,
        })
    }

    /// A guest with an image and its usual machine.
    pub(crate) fn guest(&self, image: &Path, arguments: &[&str]) -> Guest {
        Guest {
            arguments: arguments.iter().map(OsString::from).collect(),
            timeout: Some(LIMIT),
            ..Guest::new(self.loader.clone(), Some(image.to_owned()), program::name_of(image))
        }
    }
}

/// Builds an example for the guest.
pub(crate) fn example(name: &str, release: bool) -> Result<PathBuf> {
    build_example(name, &Options { release, ..Options::default() })
}

/// Builds an example without floating-point instructions, for processors that know none. A KVM that emulates them runs
/// 1.8 million instructions a second, so what is to run there is better a release build.
pub(crate) fn soft_example(name: &str, release: bool) -> Result<PathBuf> {
    build_example(name, &Options { release, float: Float::Soft, ..Options::default() })
}

fn build_example(name: &str, options: &Options) -> Result<PathBuf> {
    let folder = workspace::example(name).with_context(|| format!("there is no example {name}"))?;
    build::guest_program(&folder, options)
}

/// Runs a guest and checks its exit status and that it prints certain texts.
pub(crate) fn expect(guest: &Guest, input: &[u8], status: u8, texts: &[&str]) -> Result<Vec<u8>> {
    let (end, output) = guest.capture(Input::Bytes(input.to_vec()))?;
    let text = String::from_utf8_lossy(&output);
    let mut wrong = String::new();
    if end != End::Exited(status) {
        writeln!(wrong, "it ended with {end:?} instead of {status}")?;
    }
    for expected in texts.iter().filter(|expected| !text.contains(**expected)) {
        writeln!(wrong, "it did not print {expected:?}")?;
    }
    ensure!(wrong.is_empty(), "{wrong}--- console:\n{text}\n---");
    Ok(output)
}

/// What `examples/faults` is told, the exit status, and what it must print.
pub(super) const FAULTS: [(&str, u8, &[&str]); 23] = [
    ("panic", 134, &["thread 'main'", "panicked at"]),
    (
        "null",
        139,
        &[
            "on CPU 0, vector 14",
            "thread 'main' wrote to 0x0, which is not mapped",
            "backtrace",
            " faults::faults::null+0x",
            " hermit_kernel::start::",
        ],
    ),
    ("null-read", 139, &["thread 'main' read from 0x0, which is not mapped"]),
    ("divide", 136, &["thread 'main' divided by zero"]),
    ("illegal", 132, &["thread 'main' executed an illegal instruction"]),
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
    ("float", 0, &["ok"]),
    ("tls", 0, &["ok"]),
    ("time", 0, &["ok"]),
    ("entropy", 0, &["ok"]),
    ("memory", 0, &["ok"]),
    ("io-errors", 0, &["ok", "open: ", "bind: ", "spawn: "]),
    ("thread-null", 139, &["thread 'worker' wrote to 0x0, which is not mapped"]),
    ("thread-panic", 134, &["thread 'worker' ", "panicked at"]),
    ("thread-long-name", 139, &["thread 'a name of which 29 bytes stay' wrote to 0x0"]),
    ("no-such-fault", 2, &["usage"]),
    ("exit", 2, &["usage"]),
];

/// The same for several threads and CPUs. There must be one report, however many threads are at fault.
const THREAD_FAULTS: [(&str, u8, &str); 5] = [
    ("thread-null-busy", 139, "thread 'worker' wrote to 0x0, which is not mapped"),
    ("thread-recursion", 134, "thread 'worker' has overflowed its stack"),
    ("two-faults", 139, "thread 'worker' wrote to 0x0, which is not mapped"),
    ("nowhere-stack", 139, "thread 'main' wrote to 0x4ff8, which is not mapped"),
    ("preempted-nowhere", 139, "thread 'worker' wrote to 0x"),
];

pub(crate) fn test(report: &mut Report, examples: &Examples, long: bool) {
    hello(report, examples);
    for (fault, status, texts) in FAULTS {
        report.check(&format!("guest: {fault}"), || {
            expect(&examples.guest(&examples.faults, &[fault]), b"", status, texts).map(drop)
        });
    }
    for cpus in [1, 2] {
        for (fault, status, text) in THREAD_FAULTS {
            report.check(&format!("guest, CPUs {cpus}: {fault}"), || {
                let guest = Guest { cpus, ..examples.guest(&examples.faults, &[fault]) };
                one_report(&guest, status, text)
            });
        }
    }
    let codes: Vec<u8> = if long { (0..=255).collect() } else { vec![0, 1, 2, 42, 127, 128, 254, 255] };
    report.check(&format!("guest: {} exit codes", codes.len()), || {
        codes.iter().try_for_each(|&code| {
            let guest = examples.guest(&examples.hello_world, &["--exit-code", &code.to_string()]);
            expect(&guest, b"", code, &[]).map(drop)
        })
    });
    report.check("guest: random numbers differ from run to run", || random(examples));
    report.check("guest: addresses differ from run to run", || addresses(examples));
    report.check("guest: a fault of an image without symbols", || nameless(examples));
    machines(report, examples);
    input(report, examples);
}

fn hello(report: &mut Report, examples: &Examples) {
    let greeting: &[&str] = &["Hello, world!", "hermit", "argument 1: one", "argument 2: two words"];
    for (name, image) in [("release", &examples.hello_world), ("debug", &examples.hello_world_debug)] {
        report.check(&format!("guest: hello_world, {name}"), || {
            expect(&examples.guest(image, &["one", "two words"]), b"", 0, greeting).map(drop)
        });
    }
    report.check("guest: arguments and environment pass unchanged", || {
        let odd = ["", "a \"b\" \\ c", "--", "ü€\u{1F980}", "new\nline", "-x=1,2"];
        let mut guest = examples.guest(&examples.hello_world, &odd);
        guest.environment = vec!["GREETING=good \"day\"".into()];
        let texts: Vec<_> =
            odd.iter().enumerate().map(|(index, odd)| format!("argument {}: {odd}\n", index + 1)).collect();
        let mut texts: Vec<_> = texts.iter().map(String::as_str).collect();
        texts.push("GREETING=good \"day\"");
        expect(&guest, b"", 0, &texts).map(drop)
    });
}

fn machines(report: &mut Report, examples: &Examples) {
    for memory in ["8M", "1G", "5G"] {
        report.check(&format!("guest: boots with {memory}"), || {
            let memory = memory.parse().map_err(anyhow::Error::msg)?;
            let guest = Guest { memory, ..examples.guest(&examples.hello_world, &[]) };
            expect(&guest, b"", 0, &["Hello, world!"]).map(drop)
        });
    }
    for (name, image, input, texts) in [
        ("hello_world", &examples.hello_world, "", ["Hello, world!"]),
        ("standard input", &examples.stdin, "hello", ["HELLO"]),
    ] {
        report.check(&format!("guest: {name} on the classic PC"), || {
            let guest = Guest { board: Board::Pc, ..examples.guest(image, &[]) };
            expect(&guest, input.as_bytes(), 0, &texts).map(drop)
        });
    }
    report.check("guest: time on the classic PC", || {
        let guest = Guest { board: Board::Pc, ..examples.guest(&examples.faults, &["time"]) };
        expect(&guest, b"", 0, &["ok"]).map(drop)
    });
    report.check("guest: boots on a machine with 4 CPUs", || {
        let guest = Guest { cpus: 4, ..examples.guest(&examples.hello_world, &[]) };
        expect(&guest, b"", 0, &["Hello, world!"]).map(drop)
    });
    report.check("boot: the loader misses an image", || {
        let guest = Guest { image: None, ..examples.guest(&examples.hello_world, &[]) };
        expect(&guest, b"", NOT_STARTED, &["hermit-loader: error: no image"]).map(drop)
    });
}

fn input(report: &mut Report, examples: &Examples) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = b"the quick brown fox\n".repeat(500);
    let inputs: [(&str, &[u8]); 4] =
        [("text", b"Hello\nworld"), ("nothing", b""), ("every byte", &every_byte), ("10,000 bytes", &long)];
    for (name, input) in inputs {
        report.check(&format!("guest: standard input, {name}"), || {
            let count = format!("{} bytes", input.len());
            let output = expect(&examples.guest(&examples.stdin, &[]), input, 0, &[&count])?;
            let expected = input.to_ascii_uppercase();
            ensure!(output.starts_with(&expected), "the output is not the input in upper case");
            Ok(())
        });
    }
}

/// A guest ends with one report of a fault, and no more.
fn one_report(guest: &Guest, status: u8, text: &str) -> Result<()> {
    let output = expect(guest, b"", status, &[text, "backtrace"])?;
    let output = String::from_utf8_lossy(&output);
    let reports = output.matches("backtrace").count();
    ensure!(reports == 1, "there are {reports} reports\n{output}");
    Ok(())
}

/// A stripped image prints numbers.
fn nameless(examples: &Examples) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("faults");
    build::strip(&examples.faults, &stripped)?;
    let output = expect(&examples.guest(&stripped, &["null"]), b"", 139, &["backtrace", "   0: 0x"])?;
    ensure!(!String::from_utf8_lossy(&output).contains("faults::"), "a stripped image has names");
    Ok(())
}

/// A line of the output that starts with `prefix`.
fn line(output: &[u8], prefix: &str) -> Result<String> {
    let text = String::from_utf8_lossy(output);
    match text.lines().find(|line| line.trim_start().starts_with(prefix)) {
        Some(line) => Ok(line.to_owned()),
        None => bail!("there is no line `{prefix}` in\n{text}"),
    }
}

fn random(examples: &Examples) -> Result<()> {
    let run =
        || line(&expect(&examples.guest(&examples.faults, &["entropy"]), b"", 0, &[])?, "random number:");
    let (one, two) = (run()?, run()?);
    ensure!(one != two, "twice {one}");
    Ok(())
}

fn addresses(examples: &Examples) -> Result<()> {
    let run = || line(&expect(&examples.guest(&examples.faults, &["null"]), b"", 139, &[])?, "image at");
    let (one, two) = (run()?, run()?);
    ensure!(one != two, "twice {one}");
    Ok(())
}
