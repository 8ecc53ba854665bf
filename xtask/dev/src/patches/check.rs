//! `cargo xtask patches check`: all patches apply to the sources for which they are.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

use hermit_toolchain::crates::{self, Catalog, Package};
use hermit_toolchain::{setup, workspace};

/// Lock files of this repository. Tests use the versions in them.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "kernel/tests/crates/Cargo.lock"];

/// Applies all patches. Those of a crate are applied to the first version for which they are, and to the
/// versions in this repository's lock files.
pub(crate) fn check() -> Result<()> {
    setup::check_patches()?;
    let catalog = Catalog::read()?;
    let mut count = 0;
    for package in pinned(&catalog)? {
        let Ok(Some(patch)) = catalog.find(&package.name, &package.version) else { continue };
        let output = tempfile::tempdir().context("cannot create a temporary directory")?;
        let applied = patch.series.apply_to(&package.folder, output.path());
        applied.with_context(|| format!("{} {} cannot be patched", package.name, package.version))?;
        count += 1;
    }
    println!("crates: {} patches, of {count} versions: they apply", catalog.iter().count());
    Ok(())
}

/// Returns the versions to which the patches must apply. Versions of the same lock file can be dependencies
/// of one crate, so one query of cargo finds all of them.
fn pinned(catalog: &Catalog) -> Result<Vec<Package>> {
    let mut known = BTreeSet::new();
    let mut packages = Vec::new();
    for file in LOCK_FILES {
        let lock = fs::read_to_string(workspace::root().join(file))
            .with_context(|| format!("cannot read {file}"))?;
        let locked = crates::locked(&lock)
            .filter(|(name, version)| matches!(catalog.find(name, version), Ok(Some(_))));
        let new: Vec<_> =
            locked.filter(|&(name, version)| known.insert((name.to_owned(), version.to_owned()))).collect();
        ensure!(!new.is_empty(), "{file} has no patched crate");
        packages.extend(crates::fetch(workspace::root(), Some(&lock), &new)?);
    }
    for (name, patch) in catalog.iter() {
        let first = patch.from.to_string();
        if known.insert((name.to_owned(), first.clone())) {
            packages.extend(crates::fetch(workspace::root(), None, &[(name, &first)])?);
        }
    }
    Ok(packages)
}
