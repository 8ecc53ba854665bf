//! A folder of the host with links that lead out of it, and files next to it that no guest may reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};
use tempfile::TempDir;

use super::driver::{Expected, RECORD, RECORDS_FILE};

/// Content of the file outside the folder, content of the file with the same name inside, and text that
/// guests write to the file inside.
pub(super) const SECRET: &[u8; 8] = b"a secret";
const PUBLIC: &[u8; 8] = b"a victim";
pub(super) const GUEST_TEXT: &[u8; 8] = b"by guest";

/// The mounted folder and the files next to it.
pub(crate) struct MountedFolder(TempDir);

impl MountedFolder {
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.outside()).unwrap();
        fs::write(folder.outside().join("secret"), SECRET).unwrap();
        fs::create_dir_all(folder.inside().join("victim")).unwrap();
        fs::write(folder.inside().join("victim/secret"), PUBLIC).unwrap();
        symlink(folder.outside(), folder.inside().join("absolute")).unwrap();
        symlink("../outside/secret", folder.inside().join("relative")).unwrap();
        mkfifoat(CWD, folder.inside().join("fifo"), Mode::RWXU).unwrap();
        folder
    }

    /// Returns the path of the mounted folder.
    pub(crate) fn inside(&self) -> PathBuf {
        self.0.path().join("inside")
    }

    fn outside(&self) -> PathBuf {
        self.0.path().join("outside")
    }

    /// Asserts that nothing outside has changed.
    pub(crate) fn check_outside(&self) {
        assert_eq!(names(self.0.path()), ["inside", "outside"]);
        assert_eq!(names(&self.outside()), ["secret"]);
        assert_eq!(fs::read(self.outside().join("secret")).unwrap(), SECRET);
    }

    /// Asserts that the guest's attempts had the expected results.
    pub(crate) fn check_records(&self, expected: &[Expected]) {
        let records = fs::read(self.inside().join(RECORDS_FILE)).unwrap();
        let records: Vec<&[u8]> = records.chunks(usize::try_from(RECORD).unwrap()).collect();
        assert_eq!(records.len(), expected.len());
        for (record, Expected { name, errno, unique }) in records.iter().zip(expected) {
            let (header, _) = record.split_at(16);
            let error = i32::from_le_bytes(*header[4..].first_chunk().unwrap());
            assert_eq!((-error, &header[8..]), (*errno, &unique.to_le_bytes()[..]), "{name}");
        }
    }

    /// Asserts that the guest of a race has written to the file inside the folder.
    pub(crate) fn check_victim(&self) {
        let written = ["victim", "absolute"].map(|name| {
            let is_directory = self.inside().join(name).symlink_metadata().unwrap().is_dir();
            is_directory && fs::read(self.inside().join(name).join("secret")).unwrap() == GUEST_TEXT
        });
        assert!(written.contains(&true), "the guest has never reached the directory");
    }

    /// Calls `run` while `victim` and the symbolic link `absolute` exchange their names again and again.
    pub(crate) fn exchange_while<T>(&self, run: impl FnOnce() -> T) -> T {
        let (first, second) = (self.inside().join("victim"), self.inside().join("absolute"));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // The scope waits for the thread even if `run` panics, so the thread must be stopped on all
            // paths.
            let _stop_at_end = SetAtEnd(&stop);
            scope.spawn(|| exchange(&first, &second, &stop));
            run()
        })
    }
}

/// Sets a flag when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges two names until `stop` is set.
fn exchange(first: &Path, second: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, first, CWD, second, RenameFlags::EXCHANGE).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
