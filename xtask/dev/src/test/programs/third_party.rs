//! Crates from crates.io: `examples/third_party`.

use std::process::Command;

use anyhow::{Context, Result};

use super::MUCH_MEMORY;
use crate::test::platform::Platform;
use crate::test::schedule::Tests;
use xtask::{cargo, process, workspace};

/// Every crate gives in a guest what it gives here.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) -> Result<()> {
    let digests = digests_here()?;
    for digest in digests.lines() {
        let (name, _) = digest.split_once(": ").context("third_party printed something else than digests")?;
        let (name, digest) = (name.to_owned(), digest.to_owned());
        tests.add(format!("{platform}, CPUs 2: third_party {name}"), move || {
            let guest = platform.guest("third_party", &[&name]).cpus(2).memory(MUCH_MEMORY);
            guest.expect(0, &[&digest]).map(drop)
        });
    }
    Ok(())
}

/// What `examples/third_party` prints on this machine.
fn digests_here() -> Result<String> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--release", "--package", "third_party"]);
    let artifacts = cargo::artifacts(&mut cargo).context("cannot build third_party for this machine")?;
    let program = artifacts.into_iter().find_map(|artifact| artifact.executable);
    process::output(Command::new(program.context("cargo built no third_party")?).arg("all"))
}
