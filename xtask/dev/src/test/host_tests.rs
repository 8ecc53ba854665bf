//! The test ring `host`: tests that run on the host.
//!
//! They are the ordinary tests of the workspace's packages. Cargo only compiles them: with `--no-run`, it
//! reports the test executables. Each executable is one test of the ring `host`. So the executables run at
//! the same time, and are reported like all other tests of `cargo xtask test`. If the lints run as well,
//! clippy compiles the tests, which saves a second build.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use hermit_toolchain::cargo::Artifact;
use hermit_toolchain::target::UHYVE_TARGET;
use hermit_toolchain::{cargo, process, setup, workspace};
use serde_json::Value;

use super::report;
use super::schedule::Tests;
use crate::lint::{self, LONG_PACKAGES};

/// Seed of property tests, as an environment variable. The seed is the same in every run, so that a new
/// failure is due to the latest change. With `--long`, property tests start from a random seed instead.
pub(super) const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "6");

/// Number of cases of a property test that does not set the number itself. More cases would find little: as
/// the seed is always the same, each run repeats the cases of earlier runs. With `--long` there are 256
/// cases, proptest's default.
const PROPERTY_CASES: (&str, &str) = ("PROPTEST_CASES", "64");

/// Minimum of the bound on preemptions in loom's models with `--long`: see `kernel/sched/src/models`.
const LONG_MODELS: (&str, &str) = ("LOOM_MAX_PREEMPTIONS", "3");

/// Name and folder of the package of uhyve.
const UHYVE: (&str, &str) = ("uhyve", "hypervisor");

/// Environment variable with the path of the uhyve that the hypervisor's own tests run.
const UHYVE_VARIABLE: &str = "HERMIT_TEST_UHYVE";

/// A test executable that cargo built from a library, a binary, or a file in the folder `tests`.
#[derive(Debug)]
struct TestProgram {
    /// Name of the test: the package's folder and the name of the cargo target.
    name: String,
    executable: PathBuf,
    /// Folder of the package. It is the working directory of the test, as under cargo.
    folder: PathBuf,
}

/// The test executables of the workspace's default members.
#[derive(Debug)]
pub(super) struct HostTests {
    programs: Vec<TestProgram>,
    compiler: Compiler,
    /// True if property tests start from a random seed, and loom's models are explored further.
    long: bool,
    /// The installed uhyve, if uhyve's tests are among the programs.
    uhyve: Option<PathBuf>,
}

/// The compiler of the workspace's packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compiler {
    Rustc,
    /// [With clippy](lint::compile_with_clippy).
    Clippy,
}

impl Compiler {
    /// Returns a cargo command in the workspace.
    fn cargo(self) -> Result<Command> {
        let mut cargo = process::cargo();
        cargo.current_dir(workspace::root());
        if self == Self::Clippy {
            lint::compile_with_clippy(&mut cargo)?;
        }
        Ok(cargo)
    }

    /// Returns a command that compiles tests.
    fn build_tests(self) -> Result<Command> {
        let mut cargo = self.cargo()?;
        cargo.args(match self {
            Self::Rustc => ["test", "--quiet", "--no-run"],
            Self::Clippy => ["build", "--quiet", "--all-targets"],
        });
        Ok(cargo)
    }
}

impl HostTests {
    /// Compiles the tests of `packages`, or of all packages. With clippy, also compiles all other targets of
    /// the packages, so that clippy checks them.
    ///
    /// uhyve's tests run the installed uhyve. They are compiled for the target of uhyve's releases, which
    /// `set_up` installs first. If rustup does not provide the target, uhyve and its tests use the host's C
    /// library.
    pub(super) fn build(
        packages: Option<&BTreeSet<String>>,
        compiler: Compiler,
        long: bool,
        set_up: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let mut command = compiler.build_tests()?;
        if let Some(packages) = packages {
            command.args(host_packages(packages)?.iter().flat_map(|package| ["--package", package]));
        }
        let mut artifacts = cargo::artifacts(&mut command).context("cannot build the tests")?;
        if long && packages.is_none() {
            let mut command = compiler.build_tests()?;
            command.args(LONG_PACKAGES.iter().flat_map(|package| ["--package", package]));
            artifacts.extend(cargo::artifacts(&mut command).context("cannot build the long tests")?);
        }
        let uhyve = if packages.is_none_or(|packages| packages.contains(UHYVE.0)) {
            set_up()?;
            compile_for_uhyve_target(&mut artifacts)?;
            Some(setup::uhyve()?)
        } else {
            None
        };
        let programs = artifacts.into_iter().filter(|artifact| artifact.is_test).filter_map(|artifact| {
            let folder = artifact.folder;
            let package = folder.strip_prefix(workspace::root()).unwrap_or(&folder).display().to_string();
            Some(TestProgram {
                name: format!("{package}: {}", artifact.name),
                executable: artifact.executable?,
                folder,
            })
        });
        Ok(Self { programs: programs.collect(), compiler, long, uhyve })
    }

    /// Adds all tests. If only some packages are tested, leaves out doc tests.
    pub(super) fn add<'a>(&'a self, tests: &mut Tests<'a>, packages: Option<&BTreeSet<String>>) {
        for program in &self.programs {
            tests.add(format!("host: {}", program.name), || self.run(program, &[]));
        }
        if packages.is_none() {
            tests.add("host: examples in documentation", || {
                succeed(self.compiler.cargo()?.args(["test", "--quiet", "--doc"]))
            });
        }
    }

    /// Runs the tests in one file of a package's folder `tests`, with environment variables.
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
        let settings: &[_] = if self.long { &[LONG_MODELS] } else { &[PROPERTY_SEED, PROPERTY_CASES] };
        command.envs(settings.iter().copied());
        command.envs(self.uhyve.iter().map(|uhyve| (UHYVE_VARIABLE, uhyve)));
        succeed(command.envs(variables.iter().map(|(key, value)| (key, value))))
    }
}

/// Replaces uhyve's tests by tests for the target of its releases, if the toolchain has that target.
fn compile_for_uhyve_target(artifacts: &mut Vec<Artifact>) -> Result<()> {
    if !setup::has_uhyve_target() {
        report::note(format!(
            "there is no std for {UHYVE_TARGET}: uhyve and its tests have the host's C library"
        ));
        return Ok(());
    }
    let mut command = process::cargo();
    command.current_dir(workspace::root()).args(["test", "--quiet", "--no-run", "--tests"]);
    command.args(["--package", UHYVE.0, "--target", UHYVE_TARGET]);
    let tests = cargo::artifacts(&mut command).context("cannot build uhyve's tests")?;
    artifacts.retain(|artifact| artifact.folder != workspace::root().join(UHYVE.1));
    artifacts.extend(tests);
    Ok(())
}

/// Returns those of the packages that are built for the host: default members of the workspace, and
/// [`LONG_PACKAGES`], which also have tests for the host.
fn host_packages(packages: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&process::output(&mut cargo)?)?;
    let ids = metadata["workspace_default_members"].as_array().context("cargo names no default members")?;
    let all = metadata["packages"].as_array().context("cargo's metadata have no packages")?;
    let members = all.iter().filter_map(|package| Some((package["name"].as_str()?, &package["id"])));
    let is_built = |name: &str, id| ids.contains(id) || LONG_PACKAGES.contains(&name);
    let names = members.filter(|(name, id)| is_built(name, id) && packages.contains(*name));
    Ok(names.map(|(name, _)| name.to_owned()).collect())
}

/// Runs a command to its end. If the command fails, the error contains its output; otherwise the output is
/// not shown.
pub(super) fn succeed(command: &mut Command) -> Result<()> {
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
