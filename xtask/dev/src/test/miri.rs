//! The test ring `miri`: unit tests of the kernel's crates under [Miri](https://github.com/rust-lang/miri).
//! Miri interprets the tests and reports undefined behaviour, uninitialised reads, data races and leaks.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use hermit_toolchain::{process, workspace};

use super::report::Report;
use super::schedule::Tests;

/// Command that installs Miri, for messages. `rust-src` contains the sources from which Miri compiles its own
/// std.
const INSTALLATION: &str = "`rustup toolchain install nightly --profile minimal --component miri,rust-src`";

/// The packages whose tests run under Miri: all crates of the kernel that can run on the host, except
/// [`WITHOUT_PROVENANCE`].
const PACKAGES: [&str; 17] = [
    "hermit-base",
    "hermit-boot",
    "hermit-clock",
    "hermit-entropy",
    "hermit-firmware",
    "hermit-fs",
    "hermit-fuse",
    "hermit-fuse-client",
    "hermit-interface",
    "hermit-io",
    "hermit-memory",
    "hermit-net-stack",
    "hermit-paging",
    "hermit-resolver",
    "hermit-symbols",
    "hermit-tcp",
    "hermit-virtio",
];

/// A package that Miri rejects. The package keeps links between threads in
/// `crossbeam_utils::atomic::AtomicCell`, which stores references as integers. A reference made from an
/// integer has no provenance, so Miri reports its use.
#[cfg(test)]
const WITHOUT_PROVENANCE: &str = "hermit-sched";

/// Miri's options. Isolation is disabled, because property tests read environment variables and write files
/// into the folder of regressions.
const FLAGS: &str = "-Zmiri-disable-isolation";

/// Number of cases of a property test. Under Miri, a case may take several seconds.
const CASES: &str = "1";

/// Runs the tests of all packages. If Miri is not installed, skips the test ring, or fails if the user named
/// it (`is_named`).
pub(super) fn test(report: &mut Report, is_named: bool) -> Result<()> {
    if !is_installed() {
        let reason = format!("there is no Miri, or no source of std for it: {INSTALLATION}");
        if is_named {
            bail!("{reason}");
        }
        report.skip("miri", &reason);
        return Ok(());
    }
    // Compiles Miri's std first. Otherwise the first package would compile it, and all other packages would
    // wait.
    process::run(nightly("cargo").args(["miri", "setup"]))?;
    let mut tests = Tests::default();
    for package in PACKAGES {
        tests.add(format!("miri: {package}"), || run(package));
    }
    report.run(tests);
    Ok(())
}

/// Returns true if the nightly toolchain has Miri and the sources of std. If only the sources were missing,
/// `cargo miri setup` would install them unasked.
fn is_installed() -> bool {
    // The output is not shown: if a component is missing, rustup suggests a command other than
    // `INSTALLATION`.
    let output = |mut command: Command| command.output().ok().filter(|output| output.status.success());
    let mut version = nightly("cargo");
    version.args(["miri", "--version"]);
    let mut sysroot = nightly("rustc");
    sysroot.args(["--print", "sysroot"]);
    let sysroot = output(sysroot).and_then(|output| String::from_utf8(output.stdout).ok());
    output(version).is_some() && sysroot.is_some_and(|folder| has_sources(Path::new(folder.trim_end())))
}

fn has_sources(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").exists()
}

fn run(package: &str) -> Result<()> {
    let mut cargo = nightly("cargo");
    cargo.args(["miri", "test", "--quiet", "--lib", "--package", package, "--target-dir", "target/miri"]);
    let seed = super::host_tests::PROPERTY_SEED;
    super::host_tests::succeed(cargo.envs([("MIRIFLAGS", FLAGS), ("PROPTEST_CASES", CASES), seed]))
}

/// Returns a command that runs a program of the nightly toolchain in the root folder of the workspace.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]).current_dir(workspace::root());
    // `cargo xtask` sets these variables to the programs of the workspace's own toolchain.
    command.env_remove("CARGO").env_remove("RUSTC");
    command
}

#[cfg(test)]
mod tests {
    use super::{PACKAGES, WITHOUT_PROVENANCE, has_sources};
    use hermit_toolchain::workspace;

    #[test]
    fn toolchain_without_sources_of_std_lacks_something() {
        let sysroot = tempfile::TempDir::new().unwrap();
        assert!(!has_sources(sysroot.path()));
        let folder = sysroot.path().join("lib/rustlib/src/rust/library");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("Cargo.lock"), "").unwrap();
        assert!(has_sources(sysroot.path()));
    }

    #[test]
    fn every_crate_of_the_kernel_but_hal_and_models_is_a_package_of_the_ring() {
        let folders = std::fs::read_dir(workspace::root().join("kernel")).unwrap();
        let crates =
            folders.map(|entry| entry.unwrap().path()).filter(|path| path.join("Cargo.toml").exists());
        let names: Vec<_> =
            crates.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert!(names.iter().any(|name| name == "sched"));
        let is_tested = |name: &&String| !["hal", "models"].contains(&name.as_str());
        for name in names.iter().filter(is_tested).map(|name| format!("hermit-{name}")) {
            assert!(PACKAGES.contains(&name.as_str()) != (name == WITHOUT_PROVENANCE), "{name}");
        }
    }
}
