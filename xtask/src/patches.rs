//! Patches of other projects' sources: `cargo xtask patches`.
//!
//! A series is a directory in `xtask/patches`, in the format of Debian and nixpkgs: the file `series` lists
//! unified diffs in the order in which they apply, and the directory `new` has files that are added
//! unchanged. Each diff begins with a header: the subject, the reason, the state of the change upstream, the
//! version for which the diff was made, and the condition under which it can be dropped. A diff applies only
//! where its context is found. So if the sources are of another version, the diff is rejected, and does not
//! change the wrong place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::setup::files;
use crate::{digest, setup, workspace};
use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use diffy::patch_set::{FileOperation, FilePatch, ParseOptions, PatchSet};

/// Fields that the header of each patch has.
const FIELDS: [&str; 3] = ["Upstream: ", "Since: ", "Drop when: "];

/// Arguments of `cargo xtask patches`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Apply all patches of std, its tests, its unwinder and the C library to copies of the pinned sources
    Check,
}

/// Runs the command.
///
/// # Errors
///
/// Fails if a patch does not apply, or if sources cannot be obtained. The error names the patch or the
/// sources.
pub fn main(arguments: &Arguments) -> Result<()> {
    match arguments.action {
        Action::Check => setup::check_patches(),
    }
}

/// Patches for the sources of one project.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    name: &'static str,
}

/// Patches of std and of the crates that are built with it, for Rust's directory `library`.
pub(crate) const STD: Series = Series { name: "std" };

/// Patches of std's tests. They apply after [`STD`].
pub const STD_TESTS: Series = Series { name: "std-tests" };

/// Patches of the crate `unwinding`.
pub(crate) const UNWINDING: Series = Series { name: "unwinding" };

/// Patches of musl.
pub(crate) const MUSL: Series = Series { name: "musl" };

impl Series {
    /// Applies all patches to the fresh copy of the sources in `sources`, and adds the new files. Returns the
    /// number of patches.
    ///
    /// # Errors
    ///
    /// Fails if a hunk does not apply or a file is missing. The error names the patch and the file.
    pub fn apply(self, sources: &Path) -> Result<usize> {
        let patches = self.patches()?;
        for (name, text) in &patches {
            apply(text, sources).with_context(|| {
                format!("xtask/patches/{}/{name} is for another version of these sources", self.name)
            })?;
        }
        let new = self.directory().join("new");
        if new.is_dir() {
            files::copy_dir(&new, sources)?;
        }
        Ok(patches.len())
    }

    /// Returns a digest of the patches and of the new files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    pub fn digest(self) -> Result<String> {
        digest::of_directory(&self.directory())
    }

    /// Returns names and texts of the patches, in the order in which they apply.
    fn patches(self) -> Result<Vec<(String, String)>> {
        let directory = self.directory();
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        read("series")?.lines().map(|name| Ok((name.to_owned(), read(name)?))).collect()
    }

    fn directory(self) -> PathBuf {
        workspace::root().join("xtask/patches").join(self.name)
    }
}

/// Applies the diffs of a patch.
fn apply(text: &str, sources: &Path) -> Result<()> {
    for field in FIELDS {
        ensure!(
            text.lines().any(|line| line.starts_with(field)),
            "its header has no field `{}`",
            field.trim()
        );
    }
    for diff in PatchSet::parse(text, ParseOptions::unidiff()) {
        apply_to_file(&diff?, sources)?;
    }
    Ok(())
}

fn apply_to_file(diff: &FilePatch<'_, str>, sources: &Path) -> Result<()> {
    let FileOperation::Modify { original, .. } = diff.operation().strip_prefix(1) else {
        bail!("a patch changes files; new files are in the directory `new`");
    };
    let patch = diff.patch().as_text().context("a binary diff")?;
    let path = sources.join(&*original);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = diffy::apply(&text, patch).with_context(|| format!("cannot patch {original}"))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{MUSL, STD, STD_TESTS, UNWINDING, apply};
    use std::fs;

    const HEADER: &str = "Subject\n\nWhy.\n\nUpstream: no\nSince: 1\nDrop when: 2\n\n";
    const DIFF: &str = "--- a/d/f\n+++ b/d/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

    fn patched(patch: &str, text: &str) -> Result<String, String> {
        let sources = tempfile::tempdir().unwrap();
        fs::create_dir(sources.path().join("d")).unwrap();
        let file = sources.path().join("d/f");
        fs::write(&file, text).unwrap();
        apply(patch, sources.path()).map_err(|error| format!("{error:#}"))?;
        Ok(fs::read_to_string(file).unwrap())
    }

    #[test]
    fn diff_applies_where_its_context_is() {
        let patch = format!("{HEADER}{DIFF}");
        assert_eq!(patched(&patch, "one\ntwo\nthree\n").as_deref(), Ok("one\n2\nthree\n"));
        assert_eq!(patched(&patch, "zero\none\ntwo\nthree\n").as_deref(), Ok("zero\none\n2\nthree\n"));
    }

    #[test]
    fn error_names_the_file_and_the_hunk() {
        let patch = format!("{HEADER}{DIFF}");
        let error = patched(&patch, "one\n2\nthree\n").unwrap_err();
        assert!(error.contains("d/f") && error.contains("hunk #1"), "{error}");
        let elsewhere = patch.replace("d/f", "d/g");
        assert!(patched(&elsewhere, "").unwrap_err().contains("d/g"));
    }

    #[test]
    fn header_has_all_fields() {
        let error = patched(DIFF, "one\ntwo\nthree\n").unwrap_err();
        assert!(error.contains("Upstream"), "{error}");
    }

    #[test]
    fn every_patch_is_in_its_series() {
        for series in [STD, STD_TESTS, UNWINDING, MUSL] {
            let listed = series.patches().unwrap();
            let files = fs::read_dir(series.directory()).unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|name| name.ends_with(".patch")).count(), listed.len(), "{series:?}");
        }
    }
}
