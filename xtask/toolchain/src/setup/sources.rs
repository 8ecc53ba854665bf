//! The sources of the standard library: where they come from, and the patched copy that is built.
//!
//! std for the guest is built from the sources of the toolchain's own release, with changes: this
//! repository's `hermit-abi` in place of the published crate, patches of std, and a patched crate
//! `unwinding`. The sources in the sysroot stay unchanged: set-up makes a copy in the target directory. The
//! copy is made again when the patches change; only `hermit-abi` is replaced each time. Cargo builds the copy
//! with `--locked`. The lock file must fit: local packages have no checksum, so set-up removes the checksums
//! of the replaced crates.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::debian;
use super::files;
use super::progress::Task;
use super::record::{Addition, Record};
use super::unwinder;
use crate::digest::{self, hex};
use crate::patches::{STD, UNWINDING};
use crate::toolchain::Toolchain;
use crate::{process, workspace};

/// Rustup's name for the sources.
pub(super) const COMPONENT: &str = "rust-src";

/// Name of the ABI crate, and of its folder.
const ABI: &str = "hermit-abi";

/// Name of the file that marks a complete copy. It is written last, and contains the digest of the patches.
const COMPLETE: &str = "complete";

/// A copy of the sources with this repository's patches, its `hermit-abi` and the patched unwinder.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Folder of the copy and its build output.
    folder: PathBuf,
}

impl Sources {
    /// Returns the copy for this toolchain. Makes the copy if it does not exist or if the patches have
    /// changed.
    pub(crate) fn prepare(toolchain: &Toolchain, record: &Record, task: Task<'_>) -> Result<Self> {
        let sources = Self { folder: workspace::target_dir().join("setup").join(name(toolchain)) };
        let made = fs::read_to_string(sources.folder.join(COMPLETE));
        if made.ok() != Some(patches_digest()?) {
            sources.fetch(toolchain, record, task)?;
        }
        sources.replace_abi()?;
        Ok(sources)
    }

    /// Removes all copies.
    pub(crate) fn remove() -> Result<()> {
        files::remove_dir(&workspace::target_dir().join("setup"))
    }

    /// Returns the copy of rust's `library` folder.
    pub(crate) fn library(&self) -> PathBuf {
        self.folder.join("library")
    }

    /// Returns the copy of this repository's `hermit-abi`.
    pub(super) fn abi(&self) -> PathBuf {
        self.folder.join(ABI)
    }

    /// Returns the patched copy of the crate that std unwinds with.
    pub(super) fn unwinder(&self) -> PathBuf {
        self.folder.join(unwinder::CRATE)
    }

    /// Returns cargo's target directory for the copy.
    pub(crate) fn build_dir(&self) -> PathBuf {
        self.folder.join("build")
    }

    /// Makes the copy from the original sources.
    fn fetch(&self, toolchain: &Toolchain, record: &Record, task: Task<'_>) -> Result<()> {
        let work = tempfile::tempdir().context("cannot create a temporary folder")?;
        let original = find(toolchain, record, work.path(), task)?;
        task.note(&format!("copying {}", original.display()));
        files::remove_dir(&self.folder)?;
        files::copy_dir(&original, &self.library())?;
        STD.apply(&self.library())?;
        let (manifest, lock) = (self.library().join("Cargo.toml"), self.original_lock());
        fs::copy(self.library().join("Cargo.lock"), &lock).context("cannot copy the library's Cargo.lock")?;
        append_patch(&manifest, ABI)?;
        self.replace_abi()?;
        // The manifest must not name the copy yet: cargo has to find the published crate.
        unwinder::copy(toolchain, &self.library(), &self.unwinder())?;
        append_patch(&manifest, unwinder::CRATE)?;
        unlock(&lock, &lock, unwinder::CRATE, &self.unwinder())?;
        fs::write(self.folder.join(COMPLETE), patches_digest()?).context("cannot mark the copy as complete")
    }

    /// Returns the path of the lock file in which hermit-abi is the published crate.
    fn original_lock(&self) -> PathBuf {
        self.folder.join("Cargo.lock.original")
    }

    /// Puts this repository's hermit-abi beside the library's folder, and its version into the lock file.
    fn replace_abi(&self) -> Result<()> {
        let copy = self.abi();
        files::remove_dir(&copy)?;
        files::copy_dir(&abi_folder(), &copy)?;
        unlock(&self.original_lock(), &self.library().join("Cargo.lock"), ABI, &copy)
    }
}

/// Returns the name of the folder of a toolchain's copy. The name depends on the toolchain, not on its
/// release, because set-up holds a lock for each toolchain. So two toolchains of the same release do not
/// share a copy.
fn name(toolchain: &Toolchain) -> String {
    let mut hash = Sha256::new();
    hash.update(&toolchain.identity);
    hash.update(toolchain.sysroot.as_os_str().as_encoded_bytes());
    format!("{}-{}", toolchain.release(), &hex(&hash.finalize())[..8])
}

/// Returns a digest of the sources of this repository's hermit-abi.
pub(crate) fn abi_digest() -> Result<String> {
    digest::of_directory(&abi_folder())
}

/// Returns a digest of all patches of std and of its unwinder.
pub(super) fn patches_digest() -> Result<String> {
    Ok(STD.digest()? + &UNWINDING.digest()?)
}

fn abi_folder() -> PathBuf {
    workspace::root().join("hermit-abi")
}

/// Finds the `library` folder of rust's sources: in the sysroot, else from rustup, else from Debian.
pub(super) fn find(toolchain: &Toolchain, record: &Record, work: &Path, task: Task<'_>) -> Result<PathBuf> {
    let installed = toolchain.rustlib().join("src/rust/library");
    if is_library(&installed) {
        return Ok(installed);
    }
    task.note("downloading the sources of std with rustup");
    let by_rustup = add_component(toolchain, record);
    if is_library(&installed) {
        return Ok(installed);
    }
    let reason = by_rustup.err().map_or_else(|| "it added nothing".to_owned(), |error| format!("{error:#}"));
    task.note(&format!("rustup provided no sources ({reason}); trying Debian's package"));
    let unpacked = debian::unpack_sources(toolchain.release(), work).with_context(|| {
        format!(
            "the sources of Rust {} were not found; with a network connection, \
             `rustup component add rust-src` gets them",
            toolchain.release()
        )
    })?;
    if !is_library(&unpacked) {
        bail!("Debian's package rust-src has no sources in {}", unpacked.display());
    }
    Ok(unpacked)
}

fn is_library(folder: &Path) -> bool {
    folder.join("Cargo.lock").is_file() && folder.join("sysroot/Cargo.toml").is_file()
}

fn add_component(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let mut command = toolchain
        .rustup(&["component", "add"], COMPONENT)
        .context("rustup does not manage this toolchain")?;
    record.add(Addition::RustupComponent(COMPONENT))?;
    let result = process::run_captured(&mut command);
    if result.is_err() {
        record.remove(Addition::RustupComponent(COMPONENT))?;
    }
    result
}

/// Adds an entry to `[patch.crates-io]` of a manifest. The entry names the copy of a crate, which is beside
/// the manifest's folder.
fn append_patch(manifest: &Path, name: &str) -> Result<()> {
    let mut text =
        fs::read_to_string(manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let section = "\n[patch.crates-io]\n";
    let Some(start) = text.find(section) else {
        bail!(
            "{} has no section [patch.crates-io]: this version of Rust is not supported",
            manifest.display()
        );
    };
    text.insert_str(start + section.len(), &format!("{name} = {{ path = '../{name}' }}\n"));
    fs::write(manifest, text).with_context(|| format!("cannot write {}", manifest.display()))
}

/// Writes a lock file in which a crate is the local package in `copy`.
fn unlock(from: &Path, to: &Path, name: &str, copy: &Path) -> Result<()> {
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let lock = unlocked(&read(from)?, name, &package_version(&read(&copy.join("Cargo.toml"))?)?)?;
    fs::write(to, lock).with_context(|| format!("cannot write {}", to.display()))
}

/// Turns the lock file's entry of a crate into one of a local package, so that cargo accepts the copy without
/// a registry.
fn unlocked(lock: &str, name: &str, version: &str) -> Result<String> {
    let entry = format!("name = \"{name}\"\n");
    let Some((before, rest)) = lock.split_once(&entry) else {
        bail!("the library's Cargo.lock does not contain {name}: this version of Rust is not supported");
    };
    let (package, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let kept = package
        .lines()
        .filter(|line| !["version = ", "source = ", "checksum = "].iter().any(|key| line.starts_with(key)));
    let kept: Vec<_> = kept.collect();
    Ok(format!("{before}{entry}version = \"{version}\"\n{}\n\n{after}", kept.join("\n")))
}

fn package_version(manifest: &str) -> Result<String> {
    let manifest: toml::Table = manifest.parse().context("a manifest is no TOML")?;
    let version = manifest.get("package").and_then(|package| package.get("version")?.as_str());
    version.map(str::to_owned).context("a manifest states no `version = \"...\"`")
}

#[cfg(test)]
mod tests {
    use super::{name, package_version, unlocked};
    use crate::toolchain::Toolchain;

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"x\"\n\n\
        [[package]]\nname = \"hermit-abi\"\nversion = \"0.5.2\"\nsource = \"registry\"\nchecksum = \"y\"\n\
        dependencies = [\n \"rustc-std-workspace-core\",\n]\n\n\
        [[package]]\nname = \"z\"\nversion = \"1.0.0\"\nchecksum = \"x\"\n";

    #[test]
    fn toolchains_of_one_release_have_copies_of_their_own() {
        let toolchain = |folder: &str| Toolchain {
            sysroot: folder.into(),
            identity: "rustc 1.95.0\nrelease: 1.95.0\n".to_owned(),
        };
        let names = ["/t/stable", "/t/1.95.0"].map(|folder| name(&toolchain(folder)));
        assert!(names.iter().all(|name| name.starts_with("1.95.0-")), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0], name(&toolchain("/t/stable")));
    }

    #[test]
    fn unlocked_changes_only_the_entry_of_the_crate() {
        let expected = LOCK.replace(
            "version = \"0.5.2\"\nsource = \"registry\"\nchecksum = \"y\"\n",
            "version = \"0.5.9\"\n",
        );
        assert_eq!(unlocked(LOCK, "hermit-abi", "0.5.9").unwrap(), expected);
    }

    #[test]
    fn unlocked_rejects_a_lock_file_without_the_crate() {
        let message = unlocked("[[package]]\n", "hermit-abi", "0.5.9").unwrap_err().to_string();
        assert!(message.contains("hermit-abi"), "{message}");
    }

    #[test]
    fn package_version_is_read_from_the_manifest() {
        assert_eq!(package_version("[package]\nversion = \"0.5.3\"\n").unwrap(), "0.5.3");
        assert!(package_version("[package]\nversion.workspace = true\n").is_err());
    }
}
