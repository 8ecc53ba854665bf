//! Sources of crates: where they are, and patched copies.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::graph::{Graph, Package};
use super::patch::Patch;
use crate::process;
use crate::setup::copy_dir;

/// Makes a patched copy of a package, unless there is one; returns its folder.
pub(super) fn copy(patch: &Patch, package: &Package) -> Result<PathBuf> {
    let name = format!("{}-{}-{}", package.name, package.version, patch.digest);
    let folder = super::folder().join("sources").join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let parent = folder.parent().unwrap_or(&folder);
    let failed = || format!("cannot patch {} {}", package.name, package.version);
    fs::create_dir_all(parent).with_context(failed)?;
    let new = tempfile::tempdir_in(parent).with_context(failed)?;
    let copy = new.path().join("copy");
    copy_dir(&package.folder, &copy).with_context(failed)?;
    patch.apply(&copy).with_context(failed)?;
    allow_warnings(&copy.join("Cargo.toml")).with_context(failed)?;
    match fs::rename(&copy, &folder) {
        // Another process may have made it meanwhile.
        Err(_) if folder.is_dir() => Ok(folder),
        result => result.map(|()| folder).with_context(failed),
    }
}

/// Silences the lints of a crate, which cargo does itself only for crates from a registry.
fn allow_warnings(manifest: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest)?;
    Ok(fs::write(manifest, without_lints(&text) + "\n[lints.rust]\nwarnings = \"allow\"\n")?)
}

/// A manifest without its tables of lints.
fn without_lints(manifest: &str) -> String {
    let mut is_lint = false;
    let kept = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_lint = line.starts_with("[lints");
        }
        !is_lint
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Finds the sources of a crate that a patch requires: in the graph, else in the version of the lock file, which cargo downloads
/// if need be. `None` if the lock file does not have it: no dependency uses it.
pub(super) fn find(graph: &Graph, name: &str) -> Result<Option<Package>> {
    if let Some(package) = graph.named(name).last() {
        return Ok(Some(package.clone()));
    }
    let lock = fs::read_to_string(graph.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    locked_version(&lock, name).map(|version| fetch(name, version)).transpose()
}

/// Has cargo download a version of a crate, unless it is there.
fn fetch(name: &str, version: &str) -> Result<Package> {
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    let manifest = format!(
        "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\n{name} = {{ version = \"={version}\", default-features = false }}\n[workspace]\n"
    );
    fs::write(scratch.path().join("Cargo.toml"), manifest)
        .and_then(|()| fs::write(scratch.path().join("lib.rs"), ""))
        .context("cannot write a scratch crate")?;
    let metadata = process::output(super::metadata().current_dir(scratch.path()))?;
    let found = Graph::parse(&metadata)?;
    found.named(name).next().cloned().with_context(|| format!("cargo does not find {name} {version}"))
}

/// The highest version of a package in a lock file.
fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let versions = lock.match_indices(&entry).map(|(at, _)| &lock[at + entry.len()..]);
    versions.filter_map(|rest| rest.split('"').next()).last()
}

#[cfg(test)]
mod tests {
    use super::{locked_version, without_lints};

    #[test]
    fn lints_are_removed_from_a_manifest() {
        let manifest = "[lib]\nname = \"x\"\n[lints.rust.unexpected_cfgs]\nlevel = \"warn\"\n[lints.clippy]\n\
            a = 1\n[features]\nb = []\n";
        assert_eq!(without_lints(manifest), "[lib]\nname = \"x\"\n[features]\nb = []\n");
    }

    #[test]
    fn version_is_found_in_a_lock_file() {
        let lock = "[[package]]\nname = \"libc\"\nversion = \"0.2.5\"\n\n[[package]]\nname = \"libc-x\"\nversion = \"1.0.0\"\n";
        assert_eq!(locked_version(lock, "libc"), Some("0.2.5"));
        assert_eq!(locked_version(lock, "ibc"), None);
    }
}
