//! Tests of listings whose inodes are cached.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;

use hermit_abi::{O_DIRECTORY, O_RDONLY};
use hermit_interface::Errno;

use super::kept::{BEFORE_READDIR, Shared, append};
use crate::interface::RenameFlags;
use crate::testing::{MONOTONIC, TestSystem, run};
use crate::vfs::{OpenedPath, Vfs};

impl Shared {
    /// A folder with directories of as many files, each with a byte.
    fn with_files(validity: u64, directories: &[&str], count: usize) -> Self {
        let shared = Self::new(validity);
        for directory in directories {
            run(shared.host.create_directory(directory.as_bytes(), 0o755)).unwrap();
            names(directory, count).iter().for_each(|name| append(&shared.host, name));
        }
        // A lookup is the reason for the next listing to ask for inodes.
        append(&shared.host, "/file");
        assert_eq!(shared.size("/m/file"), Ok(1));
        shared
    }

    /// Lists a directory of the folder. Returns the number of inodes that the file system passed with the
    /// names.
    fn list(&self, directory: &str, count: usize) -> u64 {
        let before = self.folder.listed.load(Relaxed);
        assert_eq!(list(&self.guest, &format!("/m{directory}")), count);
        self.folder.listed.load(Relaxed) - before
    }

    /// Looks at the files of a directory; returns the numbers of lookups and of requests for attributes.
    fn look(&self, directory: &str, count: usize) -> (u64, u64) {
        self.folder.take_counts();
        names(directory, count).iter().for_each(|name| assert_eq!(self.size(&format!("/m{name}")), Ok(1)));
        self.folder.take_counts()
    }

    fn inodes(&self) -> u64 {
        run(self.host.usage(b"/")).unwrap().inodes
    }
}

fn names(directory: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{directory}/{number}")).collect()
}

/// Lists a directory, in pieces; returns the number of entries.
fn list(vfs: &Vfs<TestSystem>, path: &str) -> usize {
    let Ok(OpenedPath::File(directory)) = run(vfs.open(path.as_bytes(), O_RDONLY | O_DIRECTORY, 0)) else {
        panic!("{path} is no directory")
    };
    let mut total = 0;
    loop {
        let mut count = 0;
        run(vfs.read_directory(&directory, |_| {
            // The entry at which the listing breaks is read again.
            if count == 7 {
                return ControlFlow::Break(());
            }
            count += 1;
            ControlFlow::Continue(())
        }))
        .unwrap();
        total += count;
        if count < 7 {
            return total;
        }
    }
}

#[test]
fn files_of_a_listing_are_looked_at_without_further_requests() {
    let shared = Shared::with_files(u64::MAX, &["/a"], 20);
    assert_eq!((shared.list("/a", 20) >= 20, shared.look("/a", 20)), (true, (0, 0)));
    shared.guest.forget_names();
    let before = shared.inodes();
    assert!(shared.list("/a", 20) >= 20);
    shared.guest.forget_names();
    assert_eq!(shared.inodes(), before, "each reference is dropped");
}

#[test]
fn inodes_are_asked_for_as_long_as_they_are_used() {
    let directories = ["/a", "/b", "/c", "/d", "/e", "/f", "/g"];
    let shared = Shared::with_files(u64::MAX, &directories, 10);
    assert!(shared.list("/a", 10) >= 10);
    assert_eq!(shared.list("/b", 10), 0);
    // The use of one inode leads to a few more listings with inodes.
    assert_eq!(shared.look("/a", 1), (0, 0));
    for directory in ["/c", "/d", "/e", "/f"] {
        assert!(shared.list(directory, 10) >= 10, "{directory}");
    }
    assert_eq!(shared.list("/g", 10), 0);
}

#[test]
fn inodes_of_a_large_directory_are_kept_where_there_is_room() {
    let count = if cfg!(miri) { 600 } else { 2000 };
    let shared = Shared::with_files(u64::MAX, &["/a"], count);
    let before = shared.inodes();
    let listed = shared.list("/a", count);
    assert!((100..count as u64).contains(&listed), "{listed} inodes are passed");
    assert!(shared.inodes() - before <= 512);
    let lookups = shared.look("/a", count).0;
    assert!(lookups < count as u64, "{lookups} lookups");
}

#[test]
fn listings_of_many_directories_have_room() {
    let directories: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
    let paths: Vec<&str> = directories.iter().map(String::as_str).collect();
    let shared = Shared::with_files(u64::MAX, &paths, 60);
    let mut lookups = 0;
    for path in paths {
        assert!(shared.list(path, 60) >= 60, "{path}");
        lookups += shared.look(path, 60).0;
    }
    // Names whose places in the cache are the same may have displaced each other.
    assert!(lookups < 300, "{lookups} lookups");
}

#[test]
fn listing_spares_the_name_that_was_used_last() {
    let shared = Shared::with_files(u64::MAX, &[], 0);
    names("", 600).iter().for_each(|name| append(&shared.host, name));
    shared.size("/m/file").unwrap();
    // The directory is the root of the mount, so its path has no name that is kept.
    assert!(shared.list("", 601) > 100);
    shared.folder.take_counts();
    assert_eq!((shared.size("/m/file"), shared.folder.take_counts().0), (Ok(1), 0));
}

#[test]
fn inodes_that_may_not_be_kept_are_asked_for_once() {
    let shared = Shared::with_files(0, &["/a", "/b"], 10);
    assert!(shared.list("/a", 10) > 0);
    assert_eq!((shared.list("/b", 10), shared.look("/b", 10).0), (0, 20));
}

#[test]
fn listed_names_are_valid_for_a_time_and_until_this_machine_changes_them() {
    let shared = Shared::with_files(1000, &["/a"], 3);
    assert!(shared.list("/a", 3) >= 3);
    run(shared.guest.remove_file(b"/m/a/0")).unwrap();
    run(shared.host.remove_file(b"/a/1")).unwrap();
    assert_eq!((shared.size("/m/a/0"), shared.size("/m/a/1")), (Err(Errno::ENOENT), Ok(1)));
    MONOTONIC.set(1000);
    assert_eq!(shared.size("/m/a/1"), Err(Errno::ENOENT));
}

#[test]
fn names_that_are_listed_during_a_change_are_not_kept() {
    let shared = Shared::with_files(u64::MAX, &["/a"], 3);
    let other = Vfs::<TestSystem>::new(shared.folder.ramfs.clone()).unwrap();
    let guest = alloc::sync::Arc::new(shared.guest);
    let renaming = alloc::sync::Arc::clone(&guest);
    BEFORE_READDIR.set(Some(alloc::boxed::Box::new(move || {
        run(renaming.rename(b"/m/a/0", b"/m/b", RenameFlags::empty())).unwrap();
        append(&other, "/a/0");
        append(&other, "/a/0");
    })));
    list(&guest, "/m/a");
    let size = |path: &[u8]| run(guest.metadata(path, crate::Symlinks::Keep)).map(|found| found.attr.size);
    assert_eq!((size(b"/m/a/0"), size(b"/m/b")), (Ok(2), Ok(1)));
}
