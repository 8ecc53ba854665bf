//! The target folder of the components' builds.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Name of the folder.
const FOLDER: &str = "hermit-sys";

/// A target folder of cargo, locked by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct BuildDir {
    path: PathBuf,
    /// True if the folder is removed when this value is dropped, because no later build can use it.
    is_temporary: bool,
    _lock: File,
}

impl BuildDir {
    /// Opens the folder for builds for `target` with the libraries `libraries`. If cargo has built something
    /// in the workspace, the folder lies there and is kept: after an edit, cargo compiles only the changed
    /// crates. Otherwise the folder lies below `out`, and is removed when the value is dropped. All
    /// components and features share it, so that their procedural macros are compiled once.
    pub(crate) fn open(workspace: &Path, out: &Path, target: &str, libraries: &str) -> Result<Self, String> {
        let builds = workspace.join("target");
        let kept = builds.is_dir().then(|| builds.join(FOLDER));
        let dir = match kept.map(|path| Self::lock(path, false)) {
            Some(Ok(dir)) => dir,
            _ => Self::lock(out.join(FOLDER), true).map_err(|error| format!("{}: {error}", out.display()))?,
        };
        dir.remove_stale(target, libraries).map_err(|error| format!("{}: {error}", dir.path.display()))?;
        Ok(dir)
    }

    /// Creates the folder, and waits until no other process builds in it.
    fn lock(path: PathBuf, is_temporary: bool) -> std::io::Result<Self> {
        fs::create_dir_all(&path)?;
        let lock = File::create(path.join("lock"))?;
        lock.lock()?;
        Ok(Self { path, is_temporary, _lock: lock })
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes output that was compiled with other libraries: cargo does not detect that they were replaced.
    fn remove_stale(&self, target: &str, libraries: &str) -> std::io::Result<()> {
        let mark = self.path.join(format!("{target}.libraries"));
        if fs::read_to_string(&mark).is_ok_and(|text| text == libraries) {
            return Ok(());
        }
        match fs::remove_dir_all(self.path.join(target)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::write(mark, libraries),
        }
    }
}

impl Drop for BuildDir {
    fn drop(&mut self) {
        if self.is_temporary {
            // Files that remain only cost space.
            let _: Result<(), _> = fs::remove_dir_all(&self.path);
        }
    }
}
