//! Files that pass patched crates to cargo: a configuration file, and a separate lock file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::Copy;
use crate::digest::hex;
use crate::quote::toml_string;

/// Variable that makes a stable cargo accept unstable flags, as a nightly cargo does: the option
/// `resolver.lockfile-path` is unstable. In contrast to `RUSTC_BOOTSTRAP`, the variable has no effect on the
/// compiler. Build scripts inherit the variable. A script that runs cargo is affected: that cargo accepts
/// unstable flags, too.
const NIGHTLY_CARGO: (&str, &str) = ("__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS", "nightly");

/// The files that a build passes to cargo.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The configuration file, with `[patch.crates-io]`.
    file: PathBuf,
    /// The lock file, if it is not the workspace's own.
    lock: Option<PathBuf>,
}

impl Configuration {
    /// Writes the configuration for all builds of the workspace `root`, which use the workspace's own lock
    /// file. The name of the configuration file stays when the patches change.
    pub(super) fn of_workspace(root: &Path, copies: &[Copy]) -> Result<Self> {
        let folder = super::folder().join("workspaces").join(digest(&root.to_string_lossy()));
        Ok(Self { file: write_patches(&folder, copies)?, lock: None })
    }

    /// Writes the configuration of a build for the guest. Its lock file is derived from the lock file of the
    /// workspace `root`.
    pub(super) fn of_build(root: &Path, copies: &[Copy]) -> Result<Self> {
        let key = format!("{}\n{}", root.display(), patches(copies));
        let folder = super::folder().join("builds").join(digest(&key));
        let file = write_patches(&folder, copies)?;
        Ok(Self { file, lock: Some(derive_lock(&root.join("Cargo.lock"), &folder)?) })
    }

    /// Returns the line that includes the file in a workspace's configuration. The line marks the file as
    /// optional, so that the workspace stays usable after this repository's target folder was cleaned.
    pub(super) fn include(&self) -> String {
        format!(
            "# Crates that are patched for x86_64-unknown-hermit; `cargo xtask patch-config` renews the file.\n\
             include = [{{ path = {}, optional = true }}]",
            toml_string(&self.file)
        )
    }

    /// Returns the folder of the files.
    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    /// Adds the options to a command of cargo.
    pub(super) fn apply(&self, cargo: &mut Command) {
        cargo.arg("--config").arg(&self.file);
        if let Some(lock) = &self.lock {
            cargo
                .args(["-Zlockfile-path", "--config"])
                .arg(format!("resolver.lockfile-path={}", toml_string(lock)));
            cargo.env(NIGHTLY_CARGO.0, NIGHTLY_CARGO.1);
        }
    }
}

/// Returns the section of patched crates. Each entry has a unique name, because there may be several versions
/// of a crate.
fn patches(copies: &[Copy]) -> String {
    let entries = copies.iter().map(|(package, folder)| {
        let key = format!("{}-{}", package.name, package.version).replace(['.', '+'], "-");
        format!("{key} = {{ package = {:?}, path = {} }}\n", package.name, toml_string(folder))
    });
    ["[patch.crates-io]\n".to_owned()].into_iter().chain(entries).collect()
}

fn write_patches(folder: &Path, copies: &[Copy]) -> Result<PathBuf> {
    let file = folder.join("config.toml");
    replace(&file, &patches(copies))?;
    Ok(file)
}

/// Copies a lock file to a folder if it has changed since the last copy. In the copy, cargo turns the patched
/// packages into local packages, and leaves the others unchanged.
fn derive_lock(original: &Path, folder: &Path) -> Result<PathBuf> {
    let (lock, origin) = (folder.join("Cargo.lock"), folder.join("Cargo.lock.original"));
    let text = fs::read_to_string(original).with_context(|| format!("cannot read {}", original.display()))?;
    if !lock.is_file() || fs::read_to_string(&origin).ok().as_ref() != Some(&text) {
        replace(&lock, &text)?;
        replace(&origin, &text)?;
    }
    Ok(lock)
}

/// Writes a file unless it has this text already. The change is atomic: other processes see the old file or
/// the new one.
fn replace(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let failed = || format!("cannot write {}", file.display());
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).with_context(failed)?;
    let new = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    fs::write(new.path(), text).with_context(failed)?;
    new.persist(file).with_context(failed)?;
    Ok(())
}

/// Returns a short digest, for the name of a folder.
fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::derive_lock;
    use std::fs;

    #[test]
    fn lock_file_is_derived_again_when_the_original_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (original, folder) = (dir.path().join("Cargo.lock"), dir.path().join("build"));
        fs::write(&original, "one").unwrap();
        let lock = derive_lock(&original, &folder).unwrap();
        assert_eq!(fs::read_to_string(&lock).unwrap(), "one");
        fs::write(&lock, "one, with local packages").unwrap();
        derive_lock(&original, &folder).unwrap();
        assert_eq!(fs::read_to_string(&lock).unwrap(), "one, with local packages");
        fs::write(&original, "two").unwrap();
        derive_lock(&original, &folder).unwrap();
        assert_eq!(fs::read_to_string(&lock).unwrap(), "two");
    }
}
