//! A file for a database.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A file in a new folder, which is removed at the end.
pub struct File {
    folder: PathBuf,
    /// Its path; there is no file yet.
    pub path: String,
}

impl File {
    pub fn new(name: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("crates-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let path = folder.join("data.sqlite").display().to_string();
        Ok(Self { folder, path })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
