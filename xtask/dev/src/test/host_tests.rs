//! Tests that run on the development machine.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::schedule::Tests;
use xtask::{cargo, process, workspace};

/// Seed of property tests: the same in every run, so that a change does not fail on what an earlier one has broken. With
/// `--long` they start from a random seed.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "6");

/// A program that cargo made of the tests of a library, of a binary, or of a file in `tests`.
#[derive(Debug)]
struct TestProgram {
    /// Folder of the package and name of the target.
    name: String,
    executable: PathBuf,
    /// Folder of the package, in which cargo runs its tests.
    folder: PathBuf,
}

/// All test programs of the workspace's default members.
#[derive(Debug)]
pub(super) struct HostTests {
    programs: Vec<TestProgram>,
    /// Property tests start from a random seed.
    long: bool,
}

impl HostTests {
    /// Compiles them.
    pub(super) fn build(long: bool) -> Result<Self> {
        let mut command = process::cargo();
        command.current_dir(workspace::root()).args(["test", "--quiet", "--no-run"]);
        let artifacts = cargo::artifacts(&mut command).context("cannot build the tests")?;
        let programs = artifacts.into_iter().filter(|artifact| artifact.is_test).filter_map(|artifact| {
            let folder = artifact.folder;
            let package = folder.strip_prefix(workspace::root()).unwrap_or(&folder).display().to_string();
            Some(TestProgram {
                name: format!("{package}: {}", artifact.name),
                executable: artifact.executable?,
                folder,
            })
        });
        Ok(Self { programs: programs.collect(), long })
    }

    /// Adds all tests.
    pub(super) fn add<'a>(&'a self, tests: &mut Tests<'a>) {
        for program in &self.programs {
            tests.add(format!("host: {}", program.name), || self.run(program, &[]));
        }
        tests.add("host: examples in documentation", || {
            let mut cargo = process::cargo();
            succeed(cargo.current_dir(workspace::root()).args(["test", "--quiet", "--doc"]))
        });
        tests.add("host: loom models of the scheduler", models);
    }

    /// Runs the tests in a file of the folder `tests` of a package, with environment variables.
    pub(super) fn run_integration_test(
        &self,
        package: &str,
        test: &str,
        variables: &[(&str, String)],
    ) -> Result<()> {
        let name = format!("{package}: {test}");
        let program = self.programs.iter().find(|program| program.name == name);
        self.run(program.with_context(|| format!("there are no tests {name}"))?, variables)
    }

    fn run(&self, program: &TestProgram, variables: &[(&str, String)]) -> Result<()> {
        let mut command = Command::new(&program.executable);
        command.arg("--quiet").current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        if !self.long {
            command.envs([PROPERTY_SEED]);
        }
        succeed(command.envs(variables.iter().map(|(key, value)| (key, value))))
    }
}

/// Every order in which CPUs can do their steps: see `kernel/sched/src/models`.
fn models() -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).env("RUSTFLAGS", "--cfg loom");
    succeed(cargo.args([
        "test",
        "--quiet",
        "--release",
        "--package",
        "hermit-sched",
        "--target-dir",
        "target/loom",
    ]))
}

/// Runs a command to its end. What it prints is part of the error if it fails, and otherwise not shown.
fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start `{}`", process::display(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    bail!("`{}` failed ({})\n{}", process::display(command), output.status, String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::succeed;
    use std::process::Command;

    #[test]
    fn output_of_a_failed_command_is_in_the_error() {
        let shell = |script: &str| succeed(Command::new("sh").args(["-c", script]));
        shell("echo fine").unwrap();
        let message = shell("echo one; echo two >&2; exit 3").unwrap_err().to_string();
        assert!(message.contains("one\ntwo\n"), "{message}");
    }
}
