//! Builds the images with std's tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hermit_toolchain::cargo::{self, Artifact};
use hermit_toolchain::process;
use hermit_toolchain::target::GUEST_TARGET;

/// Flags of rustc. One permits std's sources to use unstable libraries. Two make the functions `fmaf128` and
/// `fmodf128` available as `fmal` and `fmodl`: LLVM calls them by these names, as on systems whose `long
/// double` has 128 bits.
const FLAGS: [&str; 5] = [
    "-Cpanic=unwind",
    "-Zforce-unstable-if-unmarked",
    "-Clink-arg=--defsym=fmal=fmaf128",
    "-Clink-arg=--defsym=fmodl=fmodf128",
    "-Awarnings",
];

/// Libraries of the toolchain on which std depends. They replace the dependencies in its manifest.
const LIBRARIES: [&str; 9] =
    ["alloc", "cfg_if", "core", "hashbrown", "hermit_abi", "libc", "rustc_demangle", "std_detect", "unwind"];

/// An image with tests.
#[derive(Debug)]
pub(super) struct TestImage {
    /// The package, one of [`PACKAGES`](super::PACKAGES).
    pub(super) package: String,
    /// Name of the package, followed by the name of the cargo target if the two differ.
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// Returns the folder of cargo's output in the workspace.
pub(super) fn output(workspace: &Path) -> PathBuf {
    workspace.join("target").join(GUEST_TARGET).join("debug")
}

/// Builds all images.
pub(super) fn images(workspace: &Path) -> Result<Vec<TestImage>> {
    println!("building the tests of core and alloc, and std's integration tests");
    let mut tests = cargo(workspace);
    tests.args([
        "build",
        "--tests",
        "--package=coretests",
        "--package=alloctests",
        "--package=std-integration",
    ]);
    let mut artifacts = cargo::artifacts(&mut tests).context("cannot build the tests of the libraries")?;
    println!("building std's unit tests");
    let mut units = cargo(workspace);
    units.args([
        "rustc",
        "--package=std",
        "--lib",
        "--profile=test",
        "--message-format=json-render-diagnostics",
    ]);
    units.arg("--").args(LIBRARIES.iter().flat_map(|library| ["--extern", library]));
    let messages = process::output(&mut units).context("cannot build std's unit tests")?;
    artifacts.extend(cargo::parse_messages(&messages));
    let mut images: Vec<_> = artifacts.into_iter().filter_map(image).collect();
    images.sort_by(|one, other| one.file.cmp(&other.file));
    let packages: BTreeSet<_> = images.iter().map(|image| image.package.as_str()).collect();
    ensure!(packages == BTreeSet::from(super::PACKAGES), "cargo built tests of {packages:?} only");
    Ok(images)
}

fn image(artifact: Artifact) -> Option<TestImage> {
    let package = artifact.folder.file_name()?.to_str()?.to_owned();
    let is_same = artifact.name == package;
    let name = if is_same { package.clone() } else { format!("{package} {}", artifact.name) };
    let file = artifact.executable.filter(|_| artifact.is_test)?;
    Some(TestImage { package, name, file })
}

/// Returns a cargo command in the workspace, with the flags that std's sources need.
fn cargo(workspace: &Path) -> Command {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace).args(["--quiet"]);
    cargo.env("CARGO_BUILD_TARGET", GUEST_TARGET).env("CARGO_TARGET_DIR", workspace.join("target"));
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    cargo
}

#[cfg(test)]
mod tests {
    use super::image;
    use hermit_toolchain::cargo::Artifact;

    #[test]
    fn only_programs_with_tests_are_images() {
        let artifact = |name: &str, is_test, executable: Option<&str>| Artifact {
            name: name.into(),
            folder: "/w/packages/alloctests".into(),
            executable: executable.map(Into::into),
            is_test,
            ..Artifact::default()
        };
        let named = |name: &str| image(artifact(name, true, Some("/w/x"))).unwrap().name;
        assert_eq!((named("alloctests"), named("other")), ("alloctests".into(), "alloctests other".into()));
        assert!(image(artifact("alloctests", true, None)).is_none());
        assert!(image(artifact("build-script-build", false, Some("/w/b"))).is_none());
    }
}
