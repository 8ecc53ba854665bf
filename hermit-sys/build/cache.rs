//! The cache of built objects, which all crates, profiles and target folders of a toolchain share.
//!
//! It lies next to std in the sysroot, in the folder of the program's target. If this folder is not writable,
//! objects are still read from it, and new objects are kept in the user's cache folder. `cargo xtask setup
//! --remove` removes both folders. The environment variable [`VARIABLE`] names another folder. An entry is an
//! object and its seal: a file with the length and digest of the object, which is written last. A truncated
//! or changed object does not match its seal, and is ignored. A build holds the lock of its component, so
//! that only one process at a time builds a component.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::digest;
use crate::toolchain::Toolchain;
use crate::user_cache::{self, FOLDER};

/// Number of objects in a cache folder; the least recently used ones are removed.
const MAX_OBJECTS: usize = 24;

/// The environment variable with the path of the cache folder.
pub(crate) const VARIABLE: &str = "HERMIT_OBJECT_CACHE";

/// The folders of objects.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Folders that may have objects, in the order of the search.
    folders: Vec<PathBuf>,
    /// The first of `folders` that this process can write.
    writable: Option<PathBuf>,
}

impl Cache {
    /// Returns the cache of a toolchain for programs of a target.
    pub(crate) fn open(toolchain: &Toolchain, target: &str) -> Self {
        if let Some(folder) = env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            return Self::of(vec![PathBuf::from(folder)]);
        }
        let beside_std = toolchain.target(target);
        // The folder of the target must exist already: set-up refuses one that it did not create.
        let in_sysroot = beside_std.join("lib").is_dir().then(|| beside_std.join(FOLDER));
        Self::of(in_sysroot.into_iter().chain(user_cache::folder()).collect())
    }

    fn of(folders: Vec<PathBuf>) -> Self {
        let writable = folders.iter().find(|folder| is_writable(folder)).cloned();
        Self { folders, writable }
    }

    /// True if [`Self::store`] can keep an object.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable.is_some()
    }

    /// Waits until no other process builds the component, and returns the lock; `None` if no folder is
    /// writable.
    pub(crate) fn lock(&self, component: &str) -> Option<File> {
        let path = self.writable.as_ref()?.join(format!("{component}.lock"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()?;
        file.lock().ok()?;
        Some(file)
    }

    /// Puts the object of that name and key at `place`. Returns false if no folder has an undamaged one.
    pub(crate) fn restore(&self, name: &str, key: &str, place: &Path) -> bool {
        self.folders.iter().any(|folder| restore_from(entry(folder, name, key), place))
    }

    /// Adds the object at `place`, and removes the objects used least recently.
    ///
    /// # Errors
    ///
    /// Fails if the folder is full or has been removed, or if no folder is writable. The object at `place` is
    /// complete even then.
    pub(crate) fn store(&self, name: &str, key: &str, place: &Path) -> std::io::Result<()> {
        let folder = self.writable.as_ref().ok_or(std::io::ErrorKind::ReadOnlyFilesystem)?;
        let (object, seal) = entry(folder, name, key);
        let partial = folder.join(format!("{name}.partial"));
        // Remove the seal first: without it, the old object is ignored. Remove the object, too: if both names
        // were links to the same file, the rename would do nothing.
        let _: Result<(), _> = fs::remove_file(&seal);
        let _: Result<(), _> = fs::remove_file(&object);
        link(place, &partial)?;
        fs::rename(&partial, &object)?;
        fs::write(&partial, sealed(&fs::read(place)?))?;
        fs::rename(&partial, &seal)?;
        evict(folder)
    }
}

/// Puts the object of an entry at `place`. Returns false if the object does not exist or is damaged.
fn restore_from((object, seal): (PathBuf, PathBuf), place: &Path) -> bool {
    let (Ok(bytes), Ok(expected)) = (fs::read(&object), fs::read_to_string(&seal)) else { return false };
    if expected != sealed(&bytes) || link(&object, place).is_err() {
        return false;
    }
    // The entry is the most recently used one now. In a folder that this user cannot write, its age stays.
    let _: Result<(), _> = File::open(&seal).and_then(|file| file.set_modified(SystemTime::now()));
    true
}

/// Removes all but the [`MAX_OBJECTS`] most recently used objects of a folder.
fn evict(folder: &Path) -> std::io::Result<()> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut objects: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "o"))
        .map(|object| (last_use(&object), object))
        .collect();
    objects.sort();
    let surplus = objects.len().saturating_sub(MAX_OBJECTS);
    for (_, object) in objects.into_iter().take(surplus) {
        // Another process may have removed it.
        let _: Result<(), _> = fs::remove_file(object.with_extension("seal"));
        let _: Result<(), _> = fs::remove_file(object);
    }
    Ok(())
}

/// Returns the paths of an object and its seal.
fn entry(folder: &Path, name: &str, key: &str) -> (PathBuf, PathBuf) {
    let file = |extension| folder.join(format!("{name}-{key}.{extension}"));
    (file("o"), file("seal"))
}

/// Returns the contents of the seal of an object: its length in bytes and its digest.
fn sealed(object: &[u8]) -> String {
    format!("{} {}\n", object.len(), digest::of_bytes(object))
}

/// Returns the time at which an object was last restored or stored; the Unix epoch if it has no seal.
fn last_use(object: &Path) -> SystemTime {
    let seal = fs::metadata(object.with_extension("seal"));
    seal.and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Makes `to` the same file as `from`, or a copy of it if they are on different file systems.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}

/// Creates a directory below an existing one, and returns true if files can be written to it.
fn is_writable(folder: &Path) -> bool {
    // The file belongs to this process alone: two builds at once do not remove each other's file.
    let probe = folder.join(format!("probe.{}", std::process::id()));
    let created = fs::create_dir_all(folder).and_then(|()| fs::write(&probe, ""));
    created.and_then(|()| fs::remove_file(&probe)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Cache, MAX_OBJECTS, entry, link};
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};
    use tempfile::TempDir;

    fn cache() -> (TempDir, Cache) {
        let folder = TempDir::new().unwrap();
        let cache = Cache::of(vec![folder.path().join("cache")]);
        (folder, cache)
    }

    fn entry_of(cache: &Cache, key: &str) -> (PathBuf, PathBuf) {
        entry(cache.writable.as_ref().unwrap(), "kernel", key)
    }

    #[test]
    fn first_folder_that_can_be_written_is_the_cache() {
        let folder = TempDir::new().unwrap();
        let (file, writable) = (folder.path().join("file"), folder.path().join("a/b"));
        fs::write(&file, "").unwrap();
        // Below a file no folder can be made, not even by root.
        let cache = Cache::of(vec![file.join("cache"), writable.clone()]);
        assert_eq!(cache.writable, Some(writable.clone()));
        assert!(fs::read_dir(&writable).unwrap().next().is_none());
        assert!(!Cache::of(vec![file]).is_writable());
    }

    #[test]
    fn object_in_a_folder_that_is_not_writable_is_restored_and_none_is_stored_there() {
        let (folder, mut cache) = cache();
        let (built, place) = (folder.path().join("built.o"), folder.path().join("place.o"));
        fs::write(&built, "object").unwrap();
        cache.store("kernel", "1", &built).unwrap();
        // The value that `of` sets if the folder is mounted read-only. The test cannot use permissions: they
        // do not prevent root from writing.
        cache.writable = None;
        assert!(cache.restore("kernel", "1", &place));
        assert!(cache.lock("kernel").is_none());
        assert!(cache.store("kernel", "2", &built).is_err());
        cache.writable = Some(folder.path().to_owned());
        cache.folders.push(folder.path().to_owned());
        cache.store("kernel", "2", &built).unwrap();
        assert!(["1", "2"].iter().all(|key| cache.restore("kernel", key, &place)));
    }

    #[test]
    fn stored_object_is_restored_by_its_name_and_key_only() {
        let (folder, cache) = cache();
        let (built, place) = (folder.path().join("built.o"), folder.path().join("place.o"));
        fs::write(&built, "object").unwrap();
        cache.store("kernel", "1", &built).unwrap();
        assert!(!cache.restore("kernel", "2", &place) && !cache.restore("net", "1", &place));
        assert!(!place.exists());
        assert!(cache.restore("kernel", "1", &place));
        assert_eq!(fs::read(&place).unwrap(), b"object");
    }

    #[test]
    fn truncated_changed_or_unsealed_object_is_not_restored_and_can_be_replaced() {
        let (folder, cache) = cache();
        let (built, place) = (folder.path().join("built.o"), folder.path().join("place.o"));
        let (object, seal) = entry_of(&cache, "1");
        for content in [Some("obj"), Some("objecT"), Some(""), None] {
            fs::write(&built, "object").unwrap();
            cache.store("kernel", "1", &built).unwrap();
            fs::remove_file(&object).unwrap();
            match content {
                Some(content) => fs::write(&object, content).unwrap(),
                None => {
                    link(&built, &object).unwrap();
                    fs::remove_file(&seal).unwrap();
                }
            }
            assert!(!cache.restore("kernel", "1", &place), "{content:?}");
        }
        cache.store("kernel", "1", &built).unwrap();
        assert!(cache.restore("kernel", "1", &place));
    }

    #[test]
    fn store_without_a_folder_is_an_error_and_keeps_the_object() {
        let (folder, cache) = cache();
        let built = folder.path().join("built.o");
        fs::write(&built, "object").unwrap();
        fs::remove_dir_all(&cache.folders[0]).unwrap();
        assert!(cache.store("kernel", "1", &built).is_err());
        assert!(cache.lock("kernel").is_none());
        assert_eq!(fs::read(&built).unwrap(), b"object");
    }

    #[test]
    fn objects_used_least_recently_are_evicted() {
        let (folder, cache) = cache();
        let built = folder.path().join("built.o");
        fs::write(&built, "object").unwrap();
        for number in 0..=MAX_OBJECTS {
            cache.store("kernel", &number.to_string(), &built).unwrap();
            let (_, seal) = entry_of(&cache, &number.to_string());
            let time = SystemTime::now() - Duration::from_secs(1000 - number as u64);
            // The last one evicts the first one, before its time is set.
            File::open(seal).unwrap().set_modified(time).unwrap();
        }
        let exists = |key: usize| {
            let (object, seal) = entry_of(&cache, &key.to_string());
            object.exists() && seal.exists()
        };
        assert!(!exists(0) && (1..=MAX_OBJECTS).all(exists));
    }
}
