//! Applies unified diffs exactly.
//!
//! `diffy` parses the diffs. This module places the hunks: at the line that the diff states, moved as far as
//! the hunk before; or else at the only place where the lines are. Tools that take the nearest place, or that
//! ignore lines of the context, can change the wrong one of several similar places. Crates have many: the
//! same condition stands before dozens of functions.

use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, Result, bail, ensure};
use diffy::patch_set::{FileOperation, FilePatch, ParseOptions, PatchSet};
use diffy::{Hunk, Line};

/// Applies the hunks that fit to files in `sources`, and writes the files to `output`. If an earlier patch
/// has written a file there, changes that one. Lines end with `\n` afterwards. Returns descriptions of the
/// hunks that do not fit.
///
/// # Errors
///
/// Fails if the diffs are not well-formed.
pub(super) fn apply(diffs: &str, sources: &Path, output: &Path) -> Result<Vec<String>> {
    let files = PatchSet::parse(diffs, ParseOptions::unidiff()).collect::<Result<Vec<_>, _>>()?;
    ensure_complete(diffs, &files)?;
    let mut misfits = Vec::new();
    for file in &files {
        let name = file_name(file)?;
        let (from, to) = (sources.join(name), output.join(name));
        let from = if to.is_file() { &to } else { &from };
        match fs::read_to_string(from) {
            Ok(text) => {
                let text = text.replace("\r\n", "\n");
                let patched = patch(name, &text, hunks(file)?, &mut misfits)?;
                write(&to, &patched)?;
            }
            Err(error) => misfits.push(format!("{name}: cannot read the file: {error}")),
        }
    }
    Ok(misfits)
}

/// Fails if lines belong to no hunk. The parser skips what follows a hunk that has as many lines as its first
/// line says, so a line that was added by hand would be lost.
fn ensure_complete(diffs: &str, files: &[FilePatch<'_, str>]) -> Result<()> {
    let mut count = 0;
    for file in files {
        count += 2 + hunks(file)?.iter().map(|hunk| 1 + hunk.lines().len()).sum::<usize>();
    }
    let lines = diffs.lines().filter(|line| !line.starts_with('\\')).count();
    ensure!(
        lines == count,
        "{lines} lines of diffs, but their hunks have {count}: a line is missing or left over, or the first \
         line of a hunk (`@@`) states another number of lines"
    );
    Ok(())
}

/// Returns the file that a diff changes, relative to the sources.
fn file_name<'a>(file: &'a FilePatch<'_, str>) -> Result<&'a str> {
    let FileOperation::Modify { original, modified } = file.operation() else {
        bail!("a diff changes files; new files are in the directory `new`");
    };
    let name = original.strip_prefix("a/").filter(|name| modified.strip_prefix("b/") == Some(name));
    let name =
        name.with_context(|| format!("`{original}` and `{modified}` are not `a/FILE` and `b/FILE`"))?;
    let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_inside, "{name} is outside of the sources");
    Ok(name)
}

fn hunks<'a>(file: &'a FilePatch<'_, str>) -> Result<&'a [Hunk<'a, str>]> {
    Ok(file.patch().as_text().context("a binary diff")?.hunks())
}

/// Returns the text after the hunks that fit. Appends descriptions of the others to `misfits`.
fn patch(name: &str, text: &str, hunks: &[Hunk<'_, str>], misfits: &mut Vec<String>) -> Result<String> {
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let mut patched = String::new();
    // `done` is the number of lines that are in `patched`. `moved` is the number of lines by which the last
    // hunk was found after the line that it states.
    let (mut done, mut moved) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let old = old_lines(hunk);
        ensure!(!old.is_empty(), "hunk {} of {name} has no context", index + 1);
        let stated = hunk.old_range().start().saturating_sub(1);
        let place = Place { lines: &lines, old: &old, done, stated: stated.saturating_add_signed(moved) };
        match place.find() {
            Ok(at) => {
                patched.extend(lines[done..at].iter().copied());
                patched.extend(new_lines(hunk));
                done = at + old.len();
                moved = at.cast_signed() - stated.cast_signed();
            }
            Err(Misfit { similar, reason }) => {
                // The hunks that follow are looked for from there, so that one misfit causes no others.
                moved = similar.map_or(moved, |at| at.cast_signed() - stated.cast_signed());
                let (was, is) = (hunk.old_range(), hunk.new_range());
                misfits.push(format!(
                    "{name}, hunk {} of {} (@@ -{was} +{is} @@): {reason}",
                    index + 1,
                    hunks.len()
                ));
            }
        }
    }
    patched.extend(lines[done..].iter().copied());
    Ok(patched)
}

fn old_lines<'a>(hunk: &Hunk<'a, str>) -> Vec<&'a str> {
    let old = |line: &Line<'a, str>| match *line {
        Line::Context(line) | Line::Delete(line) => Some(line),
        Line::Insert(_) => None,
    };
    hunk.lines().iter().filter_map(old).collect()
}

fn new_lines<'a>(hunk: &Hunk<'a, str>) -> impl Iterator<Item = &'a str> {
    hunk.lines().iter().filter_map(|line| match *line {
        Line::Context(line) | Line::Insert(line) => Some(line),
        Line::Delete(_) => None,
    })
}

/// A hunk that applies nowhere.
struct Misfit {
    /// Index of the line where the most similar lines begin.
    similar: Option<usize>,
    reason: String,
}

/// The search for the lines `old` of a hunk in the lines of a file.
struct Place<'a> {
    lines: &'a [&'a str],
    old: &'a [&'a str],
    /// Number of lines that earlier hunks have consumed.
    done: usize,
    /// Index of the line where the hunk is expected.
    stated: usize,
}

impl Place<'_> {
    /// Returns the index of the line where the hunk applies, or why it does not.
    fn find(&self) -> Result<usize, Misfit> {
        let fits = |at: &usize| self.lines.get(*at..at + self.old.len()) == Some(self.old);
        if self.stated >= self.done && fits(&self.stated) {
            return Ok(self.stated);
        }
        let found: Vec<_> = (self.done..self.lines.len()).filter(fits).collect();
        match *found {
            [only] => Ok(only),
            [] => Err(self.describe()),
            [..] => {
                let found: Vec<_> = found.iter().map(|at| (at + 1).to_string()).collect();
                let reason =
                    format!("its lines occur more than once, at lines {}: add context", found.join(", "));
                Err(Misfit { similar: None, reason })
            }
        }
    }

    /// Returns the lines that are expected, and the most similar ones of the file. Lines that differ are
    /// marked.
    fn describe(&self) -> Misfit {
        let equal =
            |at: usize| self.old.iter().zip(&self.lines[at..]).filter(|(old, line)| old == line).count();
        let nearest = |at: &usize| (equal(*at), std::cmp::Reverse(at.abs_diff(self.stated)));
        let at = (0..self.lines.len()).max_by_key(nearest).unwrap_or_default();
        if self.lines.is_empty() || equal(at) == 0 {
            let reason = format!("expected\n{}but no line of the file is similar\n", marked(self.old, &[]));
            return Misfit { similar: None, reason };
        }
        let found = &self.lines[at..self.lines.len().min(at + self.old.len())];
        let (old, found) = (marked(self.old, found), marked(found, self.old));
        let reason = format!("expected\n{old}but found at line {}\n{found}", at + 1);
        Misfit { similar: Some(at), reason }
    }
}

/// Returns indented lines. Those that differ from the lines `other` are marked.
fn marked(lines: &[&str], other: &[&str]) -> String {
    let marked = lines.iter().enumerate().map(|(index, line)| {
        let mark = if other.get(index) == Some(line) { ' ' } else { '!' };
        format!("  {mark} {}\n", line.trim_end_matches('\n'))
    });
    marked.collect()
}

fn write(file: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(file)).with_context(failed)?;
    fs::write(file, text).with_context(failed)
}
