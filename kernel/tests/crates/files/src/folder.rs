//! A folder of temporary files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A new folder, which is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("crates-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path.canonicalize()?))
    }

    /// A folder with a tree of files.
    pub fn with_tree(name: &str) -> io::Result<Self> {
        let folder = Self::new(name)?;
        for file in
            ["a.txt", "b.rs", "sub/c.rs", "sub/deep/d.txt", "sub/.hidden", "build/out.o", "build/keep.rs"]
        {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
            fs::write(path, file.repeat(10))?;
        }
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path below the folder.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.0).map_or_else(|_| "outside".to_owned(), |path| path.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that can be compressed, but not too well.
pub fn text() -> Vec<u8> {
    let words = ["alpha ", "beta ", "gamma ", "delta\n", "epsilon "];
    crate_uses::numbers(31).take(20_000).flat_map(|number| words[number as usize % 5].bytes()).collect()
}
