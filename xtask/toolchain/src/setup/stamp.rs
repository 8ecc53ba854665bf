//! Stamps of installed files: a digest of their inputs, and their sizes.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The stamp of an installed part: a key that identifies the inputs, and the size of each file. The stamp is
/// written last, so a part with a stamp was installed completely.
#[derive(Debug)]
pub(crate) struct Stamp {
    key: String,
    files: Vec<(PathBuf, u64)>,
}

/// State of an installed part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Complete, with the right inputs.
    Current,
    /// Made from other inputs.
    Outdated,
    /// Not installed, or not completely.
    Missing,
    /// This file is missing or has another size.
    Damaged(PathBuf),
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => out.write_str("up to date"),
            Self::Outdated => out.write_str("out of date"),
            Self::Missing => out.write_str("not installed"),
            Self::Damaged(file) => write!(out, "{} is damaged or missing", file.display()),
        }
    }
}

impl Stamp {
    /// Returns the stamp of files, given relative to `folder`, that were made from the inputs of `key`.
    pub(crate) fn of(key: String, folder: &Path, files: &[PathBuf]) -> Result<Self> {
        let size = |file: &PathBuf| {
            let path = folder.join(file);
            let data = fs::metadata(&path).with_context(|| format!("cannot find {}", path.display()))?;
            Ok((file.clone(), data.len()))
        };
        Ok(Self { key, files: files.iter().map(size).collect::<Result<_>>()? })
    }

    /// Writes the stamp.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let lines = self.files.iter().map(|(file, size)| format!("{size} {}\n", file.display()));
        let text = format!("{}\n{}", self.key, lines.collect::<String>());
        let partial = path.with_extension("partial");
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Compares the stamp at `path` with the files in `folder` and with `key`, and returns the state of the
    /// part.
    pub(crate) fn compare(path: &Path, key: &str, folder: &Path) -> State {
        let Ok(text) = fs::read_to_string(path) else { return State::Missing };
        let mut lines = text.lines();
        if lines.next() != Some(key) {
            return State::Outdated;
        }
        let damaged = lines.find_map(|line| {
            let (size, file) = line.split_once(' ')?;
            let path = folder.join(file);
            let whole = fs::metadata(&path).is_ok_and(|data| data.len().to_string() == size);
            (!whole).then_some(path)
        });
        damaged.map_or(State::Current, State::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, State};
    use std::fs;
    use std::path::PathBuf;

    #[test]
    fn compare_detects_changed_key_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let (stamp, file) = (folder.path().join("a.stamp"), folder.path().join("file"));
        let state = |key| Stamp::compare(&stamp, key, folder.path());
        assert_eq!(state("one"), State::Missing);
        fs::write(&file, "content").unwrap();
        Stamp::of("one".into(), folder.path(), &[PathBuf::from("file")]).unwrap().save(&stamp).unwrap();
        assert_eq!(state("one"), State::Current);
        assert_eq!(state("two"), State::Outdated);
        fs::write(&file, "cut").unwrap();
        assert_eq!(state("one"), State::Damaged(file.clone()));
        fs::remove_file(&file).unwrap();
        assert_eq!(state("one"), State::Damaged(file));
    }

    #[test]
    fn stamp_of_a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Stamp::of("one".into(), folder.path(), &[PathBuf::from("file")]).is_err());
    }
}
