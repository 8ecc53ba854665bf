//! Descriptions of results that do not differ between runs.

use std::fmt::{Debug, Write as _};
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// An error: its number and kind.
pub(crate) fn error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("error {number} {:?}", error.kind()),
        None => format!("error {:?}", error.kind()),
    }
}

/// A result.
pub(crate) fn result<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(failure) => error(&failure),
    }
}

/// Describes if a call succeeds.
pub(crate) fn success<T>(outcome: io::Result<T>) -> String {
    result(outcome.map(drop))
}

/// Type, length and whether it cannot be written.
pub(crate) fn metadata(found: &Metadata) -> String {
    let kind = match found.file_type() {
        kind if kind.is_dir() => "directory",
        kind if kind.is_symlink() => "link",
        kind if kind.is_file() => "file",
        _ => "other",
    };
    let length = if found.is_dir() { 0 } else { found.len() };
    format!("{kind} {length} {}", found.permissions().readonly())
}

/// The tree below a folder, in the order of names.
pub(crate) fn tree(folder: impl AsRef<Path>) -> io::Result<String> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut text = String::new();
    for entry in entries {
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let name = name.to_string_lossy();
        let written = if kind.is_dir() {
            write!(text, "{name}/({}) ", tree(entry.path())?)
        } else if kind.is_symlink() {
            write!(text, "{name}->{} ", fs::read_link(entry.path())?.display())
        } else {
            write!(text, "{name}={:?} ", String::from_utf8_lossy(&fs::read(entry.path())?))
        };
        written.map_err(io::Error::other)?;
    }
    Ok(text.trim_end().into())
}
