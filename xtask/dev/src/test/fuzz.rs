//! The test ring `fuzz`: runs the fuzz targets. They cover code that parses bytes from guests, hosts,
//! networks, files and users.
//!
//! The targets are built without cargo-fuzz, but with its flags, which add coverage counters and
//! AddressSanitizer. Both need a nightly compiler.

// The format of the seeds. Tests of the fuzz targets contain this module, too.
#[path = "../../../../hypervisor/fuzz/tests/seeds/text.rs"]
mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use hermit_toolchain::setup::remove_dir;
use hermit_toolchain::{process, workspace};

use super::report::{Report, last_lines};
use super::schedule::Tests;

/// The folders of the packages of fuzz targets.
const FOLDERS: [&str; 2] = ["hypervisor/fuzz", "hermit-sys/net/fuzz"];

/// The host's target. It is named explicitly, because otherwise cargo would pass the sanitizer flags to build
/// scripts, too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The compiler flags of cargo-fuzz 0.13.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Ccodegen-units=1 -Zsanitizer=address --cfg fuzzing";

/// File with the leaks that LeakSanitizer ignores.
const LEAKS: &str = "hermit-sys/net/fuzz/leaks.txt";

/// Time limit for one input, in seconds. A guest must not stop the host for longer.
const INPUT_TIMEOUT: u32 = 10;

/// A program that fuzzes.
#[derive(Debug)]
struct FuzzTarget {
    name: String,
    /// File with the target's seeds.
    seeds: PathBuf,
}

impl FuzzTarget {
    /// Writes the seeds to files of their own, as libFuzzer reads them. Returns their directory, in `output`.
    fn unpack_seeds(&self, output: &Path) -> Result<PathBuf> {
        let text = fs::read_to_string(&self.seeds)
            .with_context(|| format!("cannot read {}", self.seeds.display()))?;
        let directory = output.join(&self.name);
        remove_dir(&directory)?;
        fs::create_dir_all(&directory)?;
        for (name, bytes) in seeds::parse(&text).map_err(Error::msg)? {
            fs::write(directory.join(name), bytes)?;
        }
        Ok(directory)
    }
}

/// Runs each target for `seconds` seconds.
pub(super) fn test(report: &mut Report, seconds: u32) -> Result<()> {
    let output = &workspace::root().join("target/fuzz");
    build(output)?;
    let mut tests = Tests::default();
    for target in targets()? {
        tests.add(format!("fuzz {}", target.name), move || run(&target, output, seconds));
    }
    report.run(tests);
    Ok(())
}

fn build(output: &Path) -> Result<()> {
    let nightly = |words: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).args(words).current_dir(workspace::root());
        // `cargo xtask` sets these variables to the programs of the workspace's own toolchain.
        command.env_remove("CARGO").env_remove("RUSTC");
        command
    };
    process::output(&mut nightly(&["rustc", "--version"])).context(
        "fuzzing takes a nightly compiler, and there is none: `rustup toolchain install nightly --profile minimal`",
    )?;
    let mut cargo = nightly(&["cargo", "build", "--profile", "fuzz", "--target", TARGET]);
    cargo.args(["--package", "uhyve-fuzz", "--package", "net-fuzz"]);
    process::run(cargo.arg("--target-dir").arg(output).env("RUSTFLAGS", FLAGS))
}

/// Returns all targets, sorted by name.
fn targets() -> Result<Vec<FuzzTarget>> {
    let mut targets = Vec::new();
    for folder in FOLDERS.map(|folder| workspace::root().join(folder)) {
        for entry in fs::read_dir(folder.join("fuzz_targets"))? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            let name = name.with_context(|| format!("{} is no name of a target", path.display()))?.to_owned();
            let seeds = folder.join("seeds").join(&name).with_extension("txt");
            targets.push(FuzzTarget { name, seeds });
        }
    }
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

/// Runs a target. It starts from the seeds and from the inputs that earlier runs in this workspace have
/// found.
fn run(target: &FuzzTarget, output: &Path, seconds: u32) -> Result<()> {
    let name = &target.name;
    let (corpus, artifacts) = (output.join("corpus").join(name), output.join("artifacts").join(name));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let log = output.join(format!("{name}.log"));
    let file = fs::File::create(&log)?;
    let mut fuzzer = Command::new(output.join(TARGET).join("fuzz").join(name));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_TIMEOUT}"));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.arg(&corpus).arg(target.unpack_seeds(&output.join("seeds"))?);
    let leaks = workspace::root().join(LEAKS);
    fuzzer.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", leaks.display()));
    let status = fuzzer.stdout(file.try_clone()?).stderr(file).status()?;
    if !status.success() {
        bail!("{}\nsee {}; the input is in {}", log_end(&log), log.display(), artifacts.display());
    }
    Ok(())
}

/// Returns the end of a log, which contains the error.
fn log_end(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&bytes), 30)
}

#[cfg(test)]
mod tests {
    use super::{log_end, targets};
    use std::collections::BTreeSet;

    #[test]
    fn every_target_has_seeds_and_a_name_of_its_own() {
        let targets = targets().unwrap();
        let names: BTreeSet<_> = targets.iter().map(|target| target.name.as_str()).collect();
        assert!(names.contains("block") && names.contains("stack"));
        assert_eq!(names.len(), targets.len());
        for target in targets {
            let output = tempfile::tempdir().unwrap();
            let seeds = target.unpack_seeds(output.path()).unwrap();
            assert!(seeds.read_dir().unwrap().count() > 0, "{}", target.name);
        }
    }

    #[test]
    fn log_end_omits_the_beginning() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "first\n".to_owned() + &"x\n".repeat(29) + "last\n").unwrap();
        let text = log_end(log.path());
        assert!(text.ends_with("last") && !text.contains("first"));
    }
}
