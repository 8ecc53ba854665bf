//! Digests. Set-up and builds compare them to notice changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::setup::list_files;

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digest of the names and contents of all files in a directory.
pub(crate) fn of_directory(directory: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    add_directory(&mut hash, directory)?;
    Ok(hex(&hash.finalize()))
}

/// Adds the names and contents of all files in a directory to a digest.
pub(crate) fn add_directory(hash: &mut Sha256, directory: &Path) -> Result<()> {
    add_files(hash, directory, list_files(directory)?)
}

/// Adds the names and contents of these files in a directory to a digest.
pub(crate) fn add_files(
    hash: &mut Sha256,
    directory: &Path,
    files: impl IntoIterator<Item = PathBuf>,
) -> Result<()> {
    for file in files {
        let path = directory.join(&file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(format!("{} {}\n", file.display(), bytes.len()));
        hash.update(bytes);
    }
    Ok(())
}
