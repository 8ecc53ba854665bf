//! Temporary files: in one folder of each run, which the next one removes if the run was killed before it could do so itself.
//!
//! It is outside of the workspace: crates that are built there are not to be part of it.

use std::fs::{self, File};
use std::path::Path;
use std::{env, io};

use tempfile::TempDir;

/// How the names of the folders begin.
const PREFIX: &str = "hermit-xtask-";

/// The folder of a run.
#[derive(Debug)]
pub struct Temporary {
    folder: TempDir,
    /// The folder, locked: so others know that the run is alive, and the system unlocks it whatever ends the run.
    _lock: File,
}

/// Has temporary files be made in a folder of this run, as long as that lives. Removes those of runs that are dead.
///
/// # Errors
///
/// Then they are made where they would be otherwise.
pub fn prepare() -> io::Result<Temporary> {
    let place = env::temp_dir();
    clean(&place)?;
    let own = Temporary::new(&place)?;
    tempfile::env::override_temp_dir(own.folder.path()).map_err(|_| io::ErrorKind::AlreadyExists)?;
    Ok(own)
}

impl Temporary {
    fn new(place: &Path) -> io::Result<Self> {
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
            let lock = File::open(folder.path())?;
            lock.lock()?;
            // Before it was locked, another run may have taken it for a dead one's.
            if folder.path().is_dir() {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }
}

/// Removes the folders that nobody has locked.
fn clean(place: &Path) -> io::Result<()> {
    for entry in place.read_dir()?.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Another user's, or gone already: it is not this one's to remove.
            let _: io::Result<()> = remove_if_dead(&entry.path());
        }
    }
    Ok(())
}

fn remove_if_dead(folder: &Path) -> io::Result<()> {
    // It stays locked until it is gone, so that nobody begins to use it.
    let lock = File::open(folder)?;
    lock.try_lock()?;
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, Temporary, clean};
    use std::fs;

    #[test]
    fn what_dead_runs_have_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let alive = Temporary::new(place.path()).unwrap();
        let [dead, other] = [&format!("{PREFIX}dead"), "other"].map(|name| place.path().join(name));
        for folder in [&dead, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "bytes").unwrap();
        }
        clean(place.path()).unwrap();
        assert!(!dead.exists() && other.join("file").exists() && alive.folder.path().exists());
        let own = alive.folder.path().to_owned();
        drop(alive);
        assert!(!own.exists());
    }
}
