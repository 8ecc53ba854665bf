//! Patches of other projects' sources.
//!
//! A series is a directory below `patches` in the manner of Debian. It has unified diffs, whose order the
//! file `series` gives if there are several, and in the directory `new` files that are added unchanged. Files
//! that all series of a crate have in common are in the directory `new` beside the series. Each diff begins
//! with a [`Header`]. The same engine patches std, its tests, its unwinder, musl and crates. It is exact: a
//! hunk applies only where all of its lines are found. So if the sources are of another version, the patch is
//! rejected, and does not change the wrong place. `cargo xtask patches` checks and adapts patches.

mod diff;
mod header;

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::setup::{files, list_files};
use crate::{digest, workspace};
pub use header::Header;

/// Directory of all series, in the repository.
pub(crate) const DIRECTORY: &str = "xtask/toolchain/patches";

/// Directory of new files, in a series or beside the series of a crate.
pub(crate) const NEW: &str = "new";

/// Patches for the sources of one project, or of some versions of a crate.
#[derive(Clone, Debug)]
pub struct Series {
    /// Directory, relative to [`DIRECTORY`].
    directory: Cow<'static, str>,
    /// True for patches of a crate, whose series may have new files in common.
    is_of_crate: bool,
}

/// Patches of std and of the crates that are built with it, for Rust's directory `library`.
pub const STD: Series = Series::new("std");

/// Patches of std's tests. They apply after [`STD`].
pub const STD_TESTS: Series = Series::new("std-tests");

/// Patches of the crate `unwinding`.
pub const UNWINDING: Series = Series::new("unwinding");

/// Patches of musl.
pub const MUSL: Series = Series::new("musl");

/// One patch of a series.
#[derive(Clone, Debug)]
pub struct Patch {
    /// File of the patch.
    pub path: PathBuf,
    /// The header and the diffs.
    pub text: String,
}

impl Series {
    const fn new(directory: &'static str) -> Self {
        Self { directory: Cow::Borrowed(directory), is_of_crate: false }
    }

    /// Returns the series in a directory, which is relative to [`DIRECTORY`] or absolute.
    #[cfg(test)]
    pub(crate) fn at(directory: String) -> Self {
        Self { directory: Cow::Owned(directory), is_of_crate: false }
    }

    /// Returns the series for some versions of a crate, in the directory with all series of the crate.
    pub(crate) fn of_crate(directory: &str, versions: &str) -> Self {
        Self { directory: Cow::Owned(format!("{directory}/{versions}")), is_of_crate: true }
    }

    /// Applies all patches to the fresh copy of the sources in `sources`, and adds the new files. Returns the
    /// number of patches.
    ///
    /// # Errors
    ///
    /// Fails if a hunk does not fit or a file is missing. The error names the patch, the file and the hunk.
    pub fn apply(&self, sources: &Path) -> Result<usize> {
        self.apply_to(sources, sources)
    }

    /// Applies all patches to the sources in `sources`, and writes the changed and new files to `output`.
    pub fn apply_to(&self, sources: &Path, output: &Path) -> Result<usize> {
        let patches = self.patches()?;
        for patch in &patches {
            let misfits = patch.apply(sources, output)?;
            let more = misfits.len().saturating_sub(1);
            let Some(first) = misfits.first() else { continue };
            bail!(
                "{} does not fit these sources ({more} more hunks do not fit)\n{first}\n\
                 `cargo xtask patches refresh` adapts a patch (docs/guides/patch.md)",
                patch.name()
            );
        }
        self.add_new(sources, output)?;
        Ok(patches.len())
    }

    /// Returns a digest of the patches and of the new files.
    pub fn digest(&self) -> Result<String> {
        let mut hash = Sha256::new();
        digest::add_directory(&mut hash, &self.path())?;
        if let Some(shared) = self.shared_new() {
            digest::add_directory(&mut hash, &shared)?;
        }
        Ok(digest::hex(&hash.finalize()))
    }

    /// Returns the patches in the order in which they apply.
    pub fn patches(&self) -> Result<Vec<Patch>> {
        let directory = self.path();
        let series = directory.join("series");
        let paths = if series.is_file() {
            let names = fs::read_to_string(&series).context("cannot read a series")?;
            names.lines().map(|name| directory.join(name)).collect()
        } else {
            patch_files(&directory)?
        };
        ensure!(!paths.is_empty(), "there is no patch in {}", directory.display());
        paths.into_iter().map(Patch::read).collect()
    }

    /// Copies the new files to `output`.
    fn add_new(&self, sources: &Path, output: &Path) -> Result<()> {
        let own = Some(self.path().join(NEW)).filter(|new| new.is_dir());
        for new in own.into_iter().chain(self.shared_new()) {
            for file in list_files(&new)? {
                // Replacing a file would hide what a later version of the project has in it.
                let exists = sources.join(&file).exists();
                ensure!(
                    !exists,
                    "{}/{NEW} has {}, but the sources have it, too",
                    self.directory,
                    file.display()
                );
                files::copy(&new.join(&file), &output.join(&file))?;
            }
        }
        Ok(())
    }

    /// Returns the directory of new files that all series of a crate have in common, if there is one.
    fn shared_new(&self) -> Option<PathBuf> {
        let directory = self.path();
        let of_crate = directory.parent().filter(|_| self.is_of_crate)?;
        Some(of_crate.join(NEW)).filter(|new| new.is_dir())
    }

    fn path(&self) -> PathBuf {
        workspace::root().join(DIRECTORY).join(&*self.directory)
    }
}

impl Patch {
    /// Reads a patch.
    pub fn read(path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// Applies the hunks that fit to the sources, and writes the changed files to `output`. Returns
    /// descriptions of the hunks that do not fit.
    pub fn apply(&self, sources: &Path, output: &Path) -> Result<Vec<String>> {
        diff::apply(self.header()?.diffs, sources, output)
            .with_context(|| format!("{} is invalid", self.name()))
    }

    /// Parses the header.
    pub fn header(&self) -> Result<Header<'_>> {
        Header::parse(&self.text).with_context(|| format!("the header of {} is invalid", self.name()))
    }

    /// Returns the path in the repository.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.strip_prefix(workspace::root()).unwrap_or(&self.path).display().to_string()
    }
}

/// Returns the files of patches in a directory, sorted.
fn patch_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "patch"));
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
