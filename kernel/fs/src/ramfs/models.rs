//! Models for [loom](https://docs.rs/loom) of calls with a path, concurrent with changes of names.
//!
//! The package `hermit-models` compiles this crate with `cfg(loom)`: `cargo test -p hermit-models --test fs`.
//! With `-- --show-output` each model prints how many executions were explored. The models track the locks of
//! a ramfs and the change counter of the [path cache](super::path_cache). Data under a lock are not tracked.

extern crate std;

use alloc::boxed::Box;
use alloc::sync::Arc;

use hermit_models::LoomRawMutex;
use loom::thread;

use super::RamFs;
use super::inode::Inode;
use crate::file_system::{FileSystem as _, Name, RenameFlags};
use crate::{FileType, FoundInode, Ino, PAGE_SIZE, System, Time};

/// loom's preemption bound. The environment variable `LOOM_MAX_PREEMPTIONS` can raise it.
const PREEMPTIONS: usize = 3;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    hermit_models::explore(PREEMPTIONS, model);
}

#[derive(Debug)]
struct LoomSystem;

impl System for LoomSystem {
    type RawLock = LoomRawMutex;
    type Page = Box<[u8; PAGE_SIZE]>;

    fn allocate_page(_: &[u8]) -> Option<Self::Page> {
        None
    }

    fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
        Some(Arc::new(make()))
    }

    fn now() -> Time {
        Time { seconds: 1, nanoseconds: 0 }
    }

    fn monotonic() -> u64 {
        0
    }

    fn tick() -> u64 {
        0
    }
}

/// A ramfs with a directory.
struct Tree {
    ramfs: RamFs<LoomSystem>,
}

impl Tree {
    fn new() -> Arc<Self> {
        let ramfs = RamFs::new(1 << 20).unwrap();
        ramfs.add_directory(Name { parent: Ino::ROOT, name: b"a" }, 0o755).unwrap();
        Arc::new(Self { ramfs })
    }

    /// The inode that a path leads to, without a reference to it.
    fn find(&self, path: &[u8]) -> Option<FoundInode> {
        let found = self.ramfs.lookup_path(Ino::ROOT, path, 0)?.inode;
        self.ramfs.forget(found.ino, 1);
        Some(found)
    }

    /// Asserts that `expected` is found both by a walk and in the cache.
    fn assert_finds(&self, path: &[u8], expected: Option<FoundInode>) {
        for _ in 0..2 {
            assert_eq!(self.find(path), expected);
        }
    }

    /// Returns true if the root has an entry for the directory. Does not use the cache.
    fn has_directory(&self) -> bool {
        let is_there = |root: &mut Inode<LoomSystem>| Ok(root.directory()?.find(b"a").is_ok());
        self.ramfs.with(Ino::ROOT, is_there).unwrap()
    }

    fn create(&self, path: &[u8]) -> FoundInode {
        let (found, is_new) = self.ramfs.create_path(Ino::ROOT, path, 0, 0o644).unwrap();
        assert!(is_new);
        self.ramfs.forget(found.inode.ino, 1);
        found.inode
    }

    fn remove(&self, path: &[u8]) {
        self.ramfs.unlink_path(Ino::ROOT, path, 0, None).unwrap();
    }

    fn rename(&self, from: &[u8], to: &[u8]) {
        let name = |name| Name { parent: Ino::ROOT, name };
        self.ramfs.rename_entry(name(from), name(to), RenameFlags::empty()).unwrap();
    }
}

#[test]
fn removed_file_is_not_found_by_a_path_that_another_thread_keeps() {
    explore(|| {
        let tree = Tree::new();
        let first = tree.create(b"/a/x");
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let found = tree.find(b"/a/x");
                assert!(found.is_none_or(|found| found == first));
            })
        };
        tree.remove(b"/a/x");
        assert_eq!(tree.find(b"/a/x"), None);
        other.join().unwrap();
        tree.assert_finds(b"/a/x", None);
    });
}

#[test]
fn new_file_of_the_number_of_a_removed_one_is_found() {
    explore(|| {
        let tree = Tree::new();
        let first = tree.create(b"/a/x");
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.find(b"/a/x"))
        };
        tree.remove(b"/a/x");
        let second = tree.create(b"/a/y");
        tree.assert_finds(b"/a/y", Some(second));
        let found = other.join().unwrap();
        assert!(found.is_none_or(|found| found == first));
        tree.assert_finds(b"/a/x", None);
    });
}

#[test]
fn renamed_directory_is_found_by_its_new_path_alone() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.create(b"/a/x");
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let found = tree.find(b"/a/x");
                assert!(found.is_none_or(|found| found == file));
            })
        };
        tree.rename(b"a", b"b");
        assert_eq!((tree.find(b"/a/x"), tree.find(b"/b/x")), (None, Some(file)));
        other.join().unwrap();
        tree.assert_finds(b"/a/x", None);
        tree.assert_finds(b"/b/x", Some(file));
    });
}

#[test]
fn directory_of_another_rename_is_not_kept() {
    explore(|| {
        let tree = Tree::new();
        tree.create(b"/a/x");
        let other = {
            let tree = Arc::clone(&tree);
            // This call stores the path of the directory in the cache.
            thread::spawn(move || tree.ramfs.create_path(Ino::ROOT, b"/a/y", 0, 0o644).is_some())
        };
        tree.rename(b"a", b"b");
        let directory = tree.find(b"/b").unwrap();
        assert_eq!(directory.file_type, FileType::Directory);
        let is_created = other.join().unwrap();
        tree.assert_finds(b"/a", None);
        assert_eq!(tree.find(b"/b/y").is_some(), is_created);
        assert!(tree.ramfs.create_path(Ino::ROOT, b"/a/z", 0, 0o644).is_none());
    });
}

#[test]
fn path_below_a_directory_that_is_gone_is_not_found() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.create(b"/a/x");
        // This puts the path into the cache.
        tree.assert_finds(b"/a/x", Some(file));
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                assert!(tree.has_directory() || tree.find(b"/a/x").is_none());
            })
        };
        tree.rename(b"a", b"b");
        other.join().unwrap();
    });
}
