//! Digests of what an object is built from, and of the object itself.
//!
//! The hash is std's SipHash of 64 bits: it finds accidental differences, as cargo's fingerprints do. The
//! hash may differ between releases of the compiler, whose version is one of the inputs.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

/// Returns the digest of the bytes of a file.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:016x}", hasher.finish())
}

/// Inputs of a build, digested one by one.
#[derive(Default)]
pub(crate) struct Inputs(DefaultHasher);

impl Inputs {
    /// Adds bytes. The length goes first, so that different sequences of inputs never have the same bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write_usize(bytes.len());
        self.0.write(bytes);
    }

    /// Adds names and contents of a file, or of all files below a folder except build output and hidden
    /// files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    pub(crate) fn add_files(&mut self, path: &Path) -> Result<(), String> {
        for file in files_below(path)? {
            self.add(file.as_os_str().as_encoded_bytes());
            self.add(&fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
        }
        Ok(())
    }

    /// Returns the digest.
    pub(crate) fn finish(self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

/// Lists a file, or the files below a folder, sorted.
fn files_below(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut paths: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name(), entry.path()))
        .filter(|(name, _)| name != "target" && !name.as_encoded_bytes().starts_with(b"."))
        .map(|(_, path)| path)
        .collect();
    paths.sort();
    let files: Result<Vec<_>, _> = paths.iter().map(|path| files_below(path)).collect();
    Ok(files?.concat())
}
