//! Sources of crates: finding and downloading them, and making patched copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::catalog::CratePatch;
use super::graph::{self, Graph, MARK, Package, Purpose};
use crate::process;
use crate::quote::toml_string;
use crate::setup::copy_dir;

/// Name of the folder of patched copies. It must be changed when the same patch yields other copies than
/// before.
const FOLDER: &str = "copies-2";

/// Returns the folder of a package's patched copy.
pub(super) fn folder_of_copy(patch: &CratePatch, package: &Package) -> Result<PathBuf> {
    let digest = &patch.series.digest()?[..12];
    let name = format!("{}-{}-{digest}", package.name, package.version);
    Ok(super::folder().join(FOLDER).join(name))
}

/// Copies the folder `original` to `folder`, with the changed and new files in the folder `changes`. Does
/// nothing if another process has made the copy meanwhile.
pub(super) fn copy(original: &Path, changes: &Path, folder: &Path) -> Result<()> {
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent)?;
    let new = tempfile::tempdir_in(parent)?;
    let copy = new.path().join("copy");
    copy_dir(original, &copy)?;
    copy_dir(changes, &copy)?;
    adapt_manifest(&copy.join("Cargo.toml"), original)?;
    relax_sources(&copy)?;
    match fs::rename(&copy, folder) {
        Err(_) if folder.is_dir() => Ok(()),
        result => Ok(result?),
    }
}

/// Marks the manifest of a copy, and removes its lints. Cargo silences warnings itself only for crates from a
/// registry.
fn adapt_manifest(manifest: &Path, original: &Path) -> Result<()> {
    let text = without_lints(&fs::read_to_string(manifest)?);
    let mark = format!("[package.metadata.{MARK}]\noriginal = {}\n", toml_string(original));
    Ok(fs::write(manifest, text + "\n[lints.rust]\nwarnings = \"allow\"\n\n" + &mark)?)
}

/// Turns denied lints in the sources of a copy into warnings: a newer compiler may report them where the
/// authors' compiler did not.
fn relax_sources(copy: &Path) -> Result<()> {
    for file in crate::setup::list_files(copy)? {
        let path = copy.join(&file);
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        // A file that is not UTF-8 is not a Rust source, but test data of the crate.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let relaxed = without_denials(&text);
        if relaxed != text {
            fs::write(&path, relaxed).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// Returns the source with `warn` in place of `deny` in the attributes of the crate or of a module. The
/// manifest alone does not suffice, because attributes take precedence over it.
fn without_denials(source: &str) -> String {
    let relaxed = source.split_inclusive('\n').map(|line| {
        let start = line.trim_start();
        if start.starts_with("#![deny(") || start.starts_with("#![cfg_attr(") {
            line.replacen("[deny(", "[warn(", 1).replacen(" deny(", " warn(", 1)
        } else {
            line.to_owned()
        }
    });
    relaxed.collect()
}

/// Returns the manifest without its tables of lints.
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

/// Finds the sources of a crate that a patch requires. If the graph does not have the crate, takes the
/// version in the lock file, which cargo downloads if it is missing. Returns `None` if the lock file does not
/// have the crate either: then no dependency uses it.
pub(super) fn find(graph: &Graph, name: &str) -> Result<Option<Package>> {
    if let Some(package) = graph.named(name).last() {
        return Ok(Some(package.clone()));
    }
    let lock = fs::read_to_string(graph.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let version = locked(&lock).filter(|(other, _)| *other == name).last();
    version.map(|(_, version)| fetch_one(graph, name, version)).transpose()
}

/// Returns the folder of a package's unpatched sources.
pub(super) fn original(graph: &Graph, package: &Package) -> Result<PathBuf> {
    if package.folder.is_dir() {
        return Ok(package.folder.clone());
    }
    Ok(fetch_one(graph, &package.name, &package.version)?.folder)
}

/// Downloads versions of crates with cargo, unless they were downloaded before. `root` is a workspace, whose
/// configuration may replace the registry. If the versions are from a lock file, its text lets cargo also use
/// versions that were withdrawn.
pub fn fetch(root: &Path, lock: Option<&str>, crates: &[(&str, &str)]) -> Result<Vec<Package>> {
    let scratch = scratch_crate(crates)?;
    if let Some(lock) = lock {
        fs::write(scratch.path().join("Cargo.lock"), lock).context("cannot write a lock file")?;
    }
    // The workspace's configuration is tried first, because it may replace the registry. But it may also name
    // a patched copy whose original no longer exists; so the configuration of the scratch folder follows.
    let folders = [root, scratch.path()];
    let found = |metadata: &str| {
        let packages: Vec<_> =
            crates.iter().filter_map(|(name, version)| published(metadata, name, version)).collect();
        (packages.len() == crates.len()).then_some(packages)
    };
    let offline = folders.into_iter().find_map(|folder| {
        let mut cargo = metadata_of(scratch.path(), folder);
        let output = cargo.arg("--offline").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        found(&String::from_utf8(output.stdout).ok()?)
    });
    if let Some(packages) = offline {
        return Ok(packages);
    }
    for folder in folders {
        let metadata = process::output(&mut metadata_of(scratch.path(), folder))?;
        if let Some(packages) = found(&metadata) {
            return Ok(packages);
        }
    }
    bail!("cargo does not find all of {crates:?}")
}

fn fetch_one(graph: &Graph, name: &str, version: &str) -> Result<Package> {
    let packages = fetch(&graph.root, None, &[(name, version)])?;
    packages.into_iter().next().with_context(|| format!("cargo does not find {name} {version}"))
}

/// Makes a crate that depends on these versions of crates.
fn scratch_crate(crates: &[(&str, &str)]) -> Result<tempfile::TempDir> {
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut manifest = "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\n\
        path = \"lib.rs\"\n[workspace]\n[dependencies]\n"
        .to_owned();
    for (index, (name, version)) in crates.iter().enumerate() {
        manifest += &format!(
            "d{index} = {{ package = \"{name}\", version = \"={version}\", default-features = false }}\n"
        );
    }
    fs::write(scratch.path().join("Cargo.toml"), manifest)
        .and_then(|()| fs::write(scratch.path().join("lib.rs"), ""))
        .context("cannot write a scratch crate")?;
    Ok(scratch)
}

/// Returns a command that prints the metadata of a scratch crate. Cargo uses the configuration that is
/// effective in `folder`.
fn metadata_of(scratch: &Path, folder: &Path) -> Command {
    let mut cargo = graph::metadata();
    cargo.current_dir(folder).arg("--quiet").arg("--manifest-path").arg(scratch.join("Cargo.toml"));
    cargo
}

/// Returns a package whose sources exist.
fn published(metadata: &str, name: &str, version: &str) -> Option<Package> {
    let graph = Graph::parse(metadata, Purpose::Programs).ok()?;
    let is_it = |package: &&Package| package.version == version && package.folder.is_dir();
    graph.named(name).find(is_it).cloned()
}

/// Returns the names and versions of the packages in a lock file.
pub fn locked(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    lock.split("[[package]]\nname = \"").skip(1).filter_map(|entry| {
        let (name, rest) = entry.split_once("\"\nversion = \"")?;
        Some((name, rest.split('"').next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::{locked, without_lints};

    #[test]
    fn lints_are_removed_from_a_manifest() {
        let manifest = "[lib]\nname = \"x\"\n[lints.rust.unexpected_cfgs]\nlevel = \"warn\"\n[lints.clippy]\n\
            a = 1\n[features]\nb = []\n";
        assert_eq!(without_lints(manifest), "[lib]\nname = \"x\"\n[features]\nb = []\n");
    }

    #[test]
    fn packages_of_a_lock_file_are_found() {
        let lock = "version = 4\n\n[[package]]\nname = \"libc\"\nversion = \"0.2.5\"\n\n[[package]]\n\
                    name = \"libc-x\"\nversion = \"1.0.0\"\ndependencies = [\n \"libc\",\n]\n";
        assert!(locked(lock).eq([("libc", "0.2.5"), ("libc-x", "1.0.0")]));
    }
}
