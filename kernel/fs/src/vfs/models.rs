//! Models for [loom](https://docs.rs/loom) of calls with a path, concurrent with changes of names.
//!
//! The package `hermit-models` compiles this crate with `cfg(loom)`: `cargo test -p hermit-models --test fs`.
//! With `-- --show-output` each model prints how many executions were explored. The models track the locks of
//! a ramfs and of the caches, and the counts of changes. Data under a lock are not tracked.

extern crate std;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use hermit_abi::{O_CREAT, O_EXCL, O_WRONLY};
use hermit_interface::Errno;
use hermit_models::LoomRawMutex;
use loom::thread;

use super::{Symlinks, Vfs};
use crate::impls::RamFs;
use crate::interface::file_system::{Name, immediately};
use crate::interface::{Ino, Lookup, PAGE_SIZE, RenameFlags, System, Time};

/// loom's preemption bound. The environment variable `LOOM_MAX_PREEMPTIONS` can raise it.
const PREEMPTIONS: usize = 2;

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

fn run<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a ramfs does not wait"),
    }
}

/// A ramfs with the directory `/a`.
struct Tree {
    vfs: Vfs<LoomSystem>,
}

impl Tree {
    fn new() -> Arc<Self> {
        let vfs = Vfs::new(Arc::new(RamFs::new(1 << 20).unwrap())).unwrap();
        run(vfs.create_directory(b"/a", 0o755)).unwrap();
        Arc::new(Self { vfs })
    }

    /// Number of the inode that a path leads to.
    fn find(&self, path: &[u8]) -> Option<u64> {
        let found = run(self.vfs.metadata(path, Symlinks::Keep));
        assert!(matches!(found, Ok(_) | Err(Errno::ENOENT)));
        found.ok().map(|found| found.attr.number)
    }

    /// Asserts that a path leads to `expected`, both by a walk and in the cache.
    fn assert_finds(&self, path: &[u8], expected: Option<u64>) {
        for _ in 0..2 {
            assert_eq!(self.find(path), expected);
        }
    }

    /// Returns true if the root has an entry for the directory. Does not use the caches.
    fn has_directory(&self) -> bool {
        let file_system = self.vfs.root.file_system();
        let name = Name { parent: Ino::ROOT, name: b"a" };
        let Poll::Ready(found) = immediately(|call| file_system.lookup(call, name)) else {
            panic!("a ramfs does not wait")
        };
        let entry = found.and_then(Lookup::found);
        entry.map(|entry| file_system.forget(entry.attr.ino, 1)).is_ok()
    }

    /// Creates a file. Returns the number of its inode.
    fn create(&self, path: &[u8]) -> Result<u64, Errno> {
        match run(self.vfs.open(path, O_CREAT | O_EXCL | O_WRONLY, 0o644))? {
            super::OpenedPath::File(file) => Ok(run(file.metadata())?.attr.number),
            super::OpenedPath::Object(_) => panic!("a ramfs has no devices"),
        }
    }

    fn remove(&self, path: &[u8]) {
        run(self.vfs.remove_file(path)).unwrap();
    }

    fn rename(&self, from: &[u8], to: &[u8]) {
        run(self.vfs.rename(from, to, RenameFlags::empty())).unwrap();
    }
}

#[test]
fn removed_file_is_not_found_by_a_path_that_another_thread_keeps() {
    explore(|| {
        let tree = Tree::new();
        let first = tree.create(b"/a/x").unwrap();
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
fn file_that_replaces_a_removed_one_is_found() {
    explore(|| {
        let tree = Tree::new();
        tree.create(b"/a/x").unwrap();
        tree.assert_finds(b"/a/x", Some(3));
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.find(b"/a/x"))
        };
        tree.remove(b"/a/x");
        // The inode of `y` has the number of the removed one, unless the other thread still uses that.
        let y = tree.create(b"/a/y").unwrap();
        let x = tree.create(b"/a/x").unwrap();
        assert_eq!(tree.find(b"/a/x"), Some(x));
        other.join().unwrap();
        tree.assert_finds(b"/a/x", Some(x));
        tree.assert_finds(b"/a/y", Some(y));
    });
}

#[test]
fn renamed_directory_is_found_by_its_new_path_alone() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.create(b"/a/x").unwrap();
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let found = tree.find(b"/a/x");
                assert!(found.is_none_or(|found| found == file));
            })
        };
        tree.rename(b"/a", b"/b");
        assert_eq!((tree.find(b"/a/x"), tree.find(b"/b/x")), (None, Some(file)));
        other.join().unwrap();
        tree.assert_finds(b"/a/x", None);
        tree.assert_finds(b"/b/x", Some(file));
    });
}

#[test]
fn file_that_is_created_during_a_rename_of_its_directory_is_in_one_place() {
    explore(|| {
        let tree = Tree::new();
        let other = {
            let tree = Arc::clone(&tree);
            // This call also stores the path of the directory in the cache.
            thread::spawn(move || tree.create(b"/a/y").is_ok())
        };
        tree.rename(b"/a", b"/b");
        let is_created = other.join().unwrap();
        tree.assert_finds(b"/a", None);
        assert_eq!(tree.find(b"/b/y").is_some(), is_created);
        assert_eq!(tree.create(b"/a/z"), Err(Errno::ENOENT));
    });
}

#[test]
fn path_below_a_directory_that_is_gone_is_not_found() {
    explore(|| {
        let tree = Tree::new();
        let file = tree.create(b"/a/x").unwrap();
        // This puts the path into the cache.
        tree.assert_finds(b"/a/x", Some(file));
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                assert!(tree.has_directory() || tree.find(b"/a/x").is_none());
            })
        };
        tree.rename(b"/a", b"/b");
        other.join().unwrap();
    });
}
