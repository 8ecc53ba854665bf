//! The ring `fuzz`: runs the fuzz targets of uhyve's parsers of bytes from guests, files and users.
//!
//! The targets are the programs of `hypervisor/fuzz`. They are built with the flags of cargo-fuzz, without cargo-fuzz itself:
//! coverage counters and AddressSanitizer. Both take a nightly compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::report::Report;
use super::schedule::Tests;
use xtask::{process, workspace};

/// Named explicitly: otherwise cargo would pass the sanitizer flags to build scripts, too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The compiler flags of cargo-fuzz 0.13.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Ccodegen-units=1 -Zsanitizer=address --cfg fuzzing";

/// Time limit of one input, in seconds: a guest must not stop the host for longer.
const INPUT_TIMEOUT: u32 = 10;

/// Runs every target for so many seconds.
pub(super) fn test(report: &mut Report, seconds: u32) -> Result<()> {
    let folder = workspace::root().join("hypervisor/fuzz");
    let output = workspace::root().join("target/fuzz");
    build(&folder, &output)?;
    let mut tests = Tests::default();
    let (folder, output) = (&folder, &output);
    for name in targets(folder)? {
        tests.add(format!("fuzz {name}"), move || run(folder, output, &name, seconds));
    }
    report.run(tests);
    Ok(())
}

fn build(folder: &Path, output: &Path) -> Result<()> {
    let nightly = |words: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).args(words).current_dir(folder);
        // `cargo xtask` sets these to the toolchain of the workspace.
        command.env_remove("CARGO").env_remove("RUSTC");
        command
    };
    process::output(&mut nightly(&["rustc", "--version"])).context(
        "fuzzing takes a nightly compiler, and there is none: `rustup toolchain install nightly --profile minimal`",
    )?;
    let mut cargo = nightly(&["cargo", "build", "--release", "--target", TARGET]);
    process::run(cargo.arg("--target-dir").arg(output).env("RUSTFLAGS", FLAGS))
}

/// The names of the programs, in order.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let name = |file: PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("fuzz_targets"))? {
        names.extend(name(entry?.path()));
    }
    names.sort();
    Ok(names)
}

/// Runs a target. It starts from the seeds and from the corpus of earlier runs.
fn run(folder: &Path, output: &Path, name: &str, seconds: u32) -> Result<()> {
    let (corpus, artifacts) = (output.join("corpus").join(name), output.join("artifacts").join(name));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let log = output.join(format!("{name}.log"));
    let file = fs::File::create(&log)?;
    let mut fuzzer = Command::new(output.join(TARGET).join("release").join(name));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_TIMEOUT}"));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.arg(&corpus).arg(folder.join("seeds").join(name));
    let status = fuzzer.stdout(file.try_clone()?).stderr(file).status()?;
    if !status.success() {
        bail!("{}\nsee {}; the input is in {}", last_lines(&log), log.display(), artifacts.display());
    }
    Ok(())
}

/// The end of a log, which contains the error.
fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::{last_lines, targets};
    use xtask::workspace;

    #[test]
    fn every_target_has_seeds() {
        let folder = workspace::root().join("hypervisor/fuzz");
        let names = targets(&folder).unwrap();
        assert!(names.iter().any(|name| name == "block"));
        for name in names {
            assert!(folder.join("seeds").join(&name).is_dir(), "{name}");
        }
    }

    #[test]
    fn last_lines_omits_the_beginning() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "first\n".to_owned() + &"x\n".repeat(29) + "last\n").unwrap();
        let text = last_lines(log.path());
        assert!(text.ends_with("last") && !text.contains("first"));
    }
}
