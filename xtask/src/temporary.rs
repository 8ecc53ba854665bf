//! Temporary files. Each run of the tool has one folder for them, and removes it at the end. If a run is
//! killed, the next run removes its folder.
//!
//! The folder is outside of the workspace, so that cargo does not treat crates that are built there as
//! members.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{env, io};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use tempfile::TempDir;

/// Prefix of the folders' names.
const PREFIX: &str = "hermit-xtask-";

/// The temporary folder of a run.
#[derive(Debug)]
pub struct Temporary {
    folder: TempDir,
    /// The locked folder. The lock shows other runs that this one is alive; the kernel releases it when the
    /// process ends.
    _lock: File,
}

/// Directs the temporary files of this process to a new folder, until the result is dropped. Also removes the
/// folders of dead runs.
///
/// # Errors
///
/// Fails if the folder cannot be made or locked. Temporary files are then created in the system's folder.
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
            // Before this run locked the folder, another run may have removed it as the folder of a dead run.
            if folder.path().is_dir() {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }
}

/// Removes this user's folders that no process has locked.
fn clean(parent: &Path) -> io::Result<()> {
    for entry in parent.read_dir()?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            // Errors are ignored: the entry may belong to another user, may not be a folder, or may have been
            // removed.
            let _: io::Result<()> = remove_if_dead(&entry.path());
        }
    }
    Ok(())
}

fn remove_if_dead(folder: &Path) -> io::Result<()> {
    // The folder stays locked until it is removed, so that no other run starts to use it.
    let lock = open_own_folder(folder)?;
    lock.try_lock()?;
    fs::remove_dir_all(folder)
}

/// Opens a folder of this user. All users can write to the directory of temporary files. So another user may
/// have made a symbolic link of that name, or a FIFO, which would block the open.
fn open_own_folder(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
    if opened.metadata()?.uid() != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, Temporary, clean, open_own_folder};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn what_is_no_folder_of_this_user_is_neither_waited_for_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [fifo, link] = ["fifo", "link"].map(|name| parent.path().join(format!("{PREFIX}{name}")));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let target = parent.path().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        clean(parent.path()).unwrap();
        assert!(fifo.exists() && target.is_dir() && link.is_symlink());
        assert!(open_own_folder(&fifo).is_err() && open_own_folder(&link).is_err());
        assert!(open_own_folder(&target).is_ok());
    }

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
