//! `cargo xtask patches refresh`: adapts the patches of a project to another version.
//!
//! The command applies the patches one after the other. At the first one that does not fit, it prints the
//! hunks that do not, and leaves the sources before and after the other hunks in two directories. After the
//! second directory was corrected, `--save` writes the difference into the patch, and goes on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use diffy::DiffOptions;

use hermit_toolchain::crates::{self, Catalog};
use hermit_toolchain::patches::{MUSL, Patch, STD, STD_TESTS, Series, UNWINDING};
use hermit_toolchain::setup::{copy_dir, list_files, remove_dir};
use hermit_toolchain::workspace;

/// Arguments of `cargo xtask patches refresh`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Name of a crate; or std, std-tests, unwinding or musl
    name: String,
    /// Version of a crate; or the directory of the sources of std or musl
    #[arg(value_name = "VERSION|DIRECTORY")]
    version: String,
    /// Write the corrected sources' difference into the patch that did not fit
    #[arg(long)]
    save: bool,
}

pub(super) fn main(arguments: &Arguments) -> Result<()> {
    let Arguments { name, version, save } = arguments;
    let (series, context) = series(name, version)?;
    let patches = series.iter().map(Series::patches).collect::<Result<Vec<_>>>()?.concat();
    let label = Path::new(version).file_name().unwrap_or(version.as_ref()).to_string_lossy();
    let work = Work::new(&workspace::target_dir().join("patches").join(format!("{name}-{label}")));
    if *save {
        work.save(&patches, context)?;
        return main(&Arguments { name: name.clone(), version: version.clone(), save: false });
    }
    work.begin(&sources(name, version)?)?;
    for patch in &patches {
        if let Some(misfits) = work.advance(patch)? {
            bail!(
                "{} does not fit {name} {version}\n{misfits}\n\
                 The other hunks are applied in {}. Correct the files there; then run the command with --save.",
                patch.name(),
                work.after.display()
            );
        }
    }
    let last = patches.last().context("there is no patch")?;
    let header = last.header()?;
    let (since, below) = (header.required("Since")?, header.get("Below").unwrap_or("any later version"));
    println!("{} fits {name} {version}; it is for {since} to below {below}", last.name());
    remove_dir(&work.directory)
}

/// Returns the series that apply to a project's sources, in their order, and the length of the context of
/// hunks. Less context fits more versions.
fn series(name: &str, version: &str) -> Result<(Vec<Series>, usize)> {
    let series = match name {
        "std" => vec![STD],
        "std-tests" => vec![STD, STD_TESTS],
        "unwinding" => vec![UNWINDING],
        "musl" => vec![MUSL],
        _ => return Ok((vec![Catalog::read()?.nearest(name, version)?.series.clone()], 1)),
    };
    Ok((series, 3))
}

/// Returns the directory of the sources. Cargo downloads those of a crate.
fn sources(name: &str, version: &str) -> Result<PathBuf> {
    if ["std", "std-tests", "musl"].contains(&name) {
        ensure!(
            Path::new(version).is_dir(),
            "name the directory of the sources: docs/guides/toolchain-bump.md"
        );
        return Ok(version.into());
    }
    let packages = crates::fetch(workspace::root(), None, &[(name, version)])?;
    packages.into_iter().next().map(|package| package.folder).context("cargo finds no such version")
}

/// Sources before and after a patch.
struct Work {
    directory: PathBuf,
    before: PathBuf,
    after: PathBuf,
    /// File with the name of the patch that does not fit.
    pending: PathBuf,
}

impl Work {
    fn new(directory: &Path) -> Self {
        let [before, after, pending] = ["before", "after", "pending"].map(|name| directory.join(name));
        Self { directory: directory.to_owned(), before, after, pending }
    }

    fn begin(&self, sources: &Path) -> Result<()> {
        remove_dir(&self.directory)?;
        copy_dir(sources, &self.before)?;
        copy_dir(sources, &self.after)
    }

    /// Applies a patch. Returns the hunks that do not fit.
    fn advance(&self, patch: &Patch) -> Result<Option<String>> {
        let misfits = patch.apply(&self.after, &self.after)?;
        if misfits.is_empty() {
            patch.apply(&self.before, &self.before)?;
            return Ok(None);
        }
        fs::write(&self.pending, patch.name())?;
        Ok(Some(misfits.join("\n")))
    }

    /// Writes the difference of the sources into the patch that did not fit, after its header.
    fn save(&self, patches: &[Patch], context: usize) -> Result<()> {
        let name = fs::read_to_string(&self.pending).context("first run the command without --save")?;
        let patch = patches.iter().find(|patch| patch.name() == name);
        let patch = patch.with_context(|| format!("{name} is not in its series"))?;
        let text = patch.header()?.text.to_owned() + &difference(&self.before, &self.after, context)?;
        fs::write(&patch.path, text).with_context(|| format!("cannot write {name}"))?;
        println!("{name} is written: check its fields Since and Below");
        Ok(())
    }
}

/// Returns the differences of the files in two directories, as unified diffs.
fn difference(before: &Path, after: &Path, context: usize) -> Result<String> {
    let mut diffs = String::new();
    for file in list_files(after)? {
        let name = file.display();
        let old = fs::read(before.join(&file));
        let old = old.with_context(|| format!("{name} is new: put it into the series' directory `new`"))?;
        let new = fs::read(after.join(&file))?;
        if old == new {
            continue;
        }
        let text = |bytes| String::from_utf8(bytes).with_context(|| format!("{name} is no text"));
        // As the patch is applied to sources whose lines end with `\n`, it is made from such sources.
        let (old, new) = (text(old)?.replace("\r\n", "\n"), text(new)?);
        let mut options = DiffOptions::new();
        options
            .set_context_len(context)
            .set_original_filename(format!("a/{name}"))
            .set_modified_filename(format!("b/{name}"));
        diffs += &options.create_patch(&old, &new).to_string();
    }
    ensure!(!diffs.is_empty(), "the sources before and after the patch are equal");
    Ok(diffs)
}

#[cfg(test)]
mod tests {
    use super::{Patch, Work, difference};
    use std::fs;

    const HEADER: &str = "Subject\n\nWhy.\n\nUpstream: no\nSince: 1\nDrop when: 2\n\n";

    #[test]
    fn corrected_sources_become_the_patch() {
        let directory = tempfile::tempdir().unwrap();
        let sources = directory.path().join("sources");
        fs::create_dir(&sources).unwrap();
        fs::write(sources.join("f"), "one\n2\nthree\n").unwrap();
        let path = directory.path().join("a.patch");
        let text = format!("{HEADER}--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n");
        let patch = Patch { path: path.clone(), text };
        let work = Work::new(&directory.path().join("work"));
        work.begin(&sources).unwrap();
        let misfits = work.advance(&patch).unwrap().unwrap();
        assert!(misfits.contains("f, hunk 1 of 1") && misfits.contains("! two"), "{misfits}");

        fs::write(work.after.join("f"), "one\nTWO\nthree\n").unwrap();
        work.save(std::slice::from_ref(&patch), 3).unwrap();
        let saved = Patch::read(path).unwrap();
        assert!(
            saved.text.starts_with(HEADER) && saved.text.ends_with("-2\n+TWO\n three\n"),
            "{}",
            saved.text
        );
        work.begin(&sources).unwrap();
        assert_eq!(work.advance(&saved).unwrap(), None);
        assert_eq!(fs::read_to_string(work.before.join("f")).unwrap(), "one\nTWO\nthree\n");
    }

    #[test]
    fn nothing_to_save_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let work = Work::new(directory.path());
        assert!(work.save(&[], 3).unwrap_err().to_string().contains("without --save"));
        fs::write(directory.path().join("f"), "").unwrap();
        assert!(difference(directory.path(), directory.path(), 3).is_err());
    }
}
