//! Temporary files: in one folder for each run, removed at its end. If the run is killed, the next run removes the folder.
//!
//! The folder is outside of the workspace, so that cargo does not treat crates that are built there as members.

use std::fs::{self, File};
use std::path::Path;
use std::{env, io};

use tempfile::TempDir;

/// Prefix of the folders' names.
const PREFIX: &str = "hermit-xtask-";

/// The temporary folder of a run.
#[derive(Debug)]
pub struct Temporary {
    folder: TempDir,
    /// The locked folder. The lock shows other runs that this one is alive; the kernel releases it when the process ends.
    _lock: File,
}

/// Directs temporary files of this process to a folder of its own, until the result is dropped. Removes folders of dead runs.
///
/// # Errors
///
/// On an error temporary files are created in the system's folder.
pub fn prepare() -> io::Result<Temporary> {
    let parent = env::temp_dir();
    clean(&parent)?;
    let own = Temporary::new(&parent)?;
    tempfile::env::override_temp_dir(own.folder.path()).map_err(|_| io::ErrorKind::AlreadyExists)?;
    Ok(own)
}

impl Temporary {
    fn new(parent: &Path) -> io::Result<Self> {
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = File::open(folder.path())?;
            lock.lock()?;
            // Before it was locked, another run may have removed it as a dead run's.
            if folder.path().is_dir() {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }
}

/// Removes the folders that no process has locked.
fn clean(parent: &Path) -> io::Result<()> {
    for entry in parent.read_dir()?.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Removing fails for a folder of another user, or one that is gone already: neither is an error.
            let _: io::Result<()> = remove_if_dead(&entry.path());
        }
    }
    Ok(())
}

fn remove_if_dead(folder: &Path) -> io::Result<()> {
    // It stays locked until it is removed, so that no other run starts to use it.
    let lock = File::open(folder)?;
    lock.try_lock()?;
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, Temporary, clean};
    use std::fs;

    #[test]
    fn clean_removes_only_folders_of_dead_runs() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Temporary::new(parent.path()).unwrap();
        let [dead, other] = [&format!("{PREFIX}dead"), "other"].map(|name| parent.path().join(name));
        for folder in [&dead, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "bytes").unwrap();
        }
        clean(parent.path()).unwrap();
        assert!(!dead.exists() && other.join("file").exists() && alive.folder.path().exists());
        let own = alive.folder.path().to_owned();
        drop(alive);
        assert!(!own.exists());
    }
}
