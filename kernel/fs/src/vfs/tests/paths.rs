//! Tests of the path cache: a cached path leads to the same inode as a walk.

use alloc::sync::Arc;
use std::format;
use std::thread;

use hermit_abi::{O_CREAT, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY};
use hermit_interface::Errno;

use super::kept::{Shared, append, open};
use crate::impls::RamFs;
use crate::interface::RenameFlags;
use crate::testing::{MONOTONIC, TestSystem, run, vfs};
use crate::vfs::{OpenedPath, Symlinks, Vfs};

/// Returns the number of the inode that a path leads to. Finds it twice and compares the results: the first
/// call may walk, the second one finds the path in the cache.
fn find(vfs: &Vfs<TestSystem>, path: &str) -> Option<u64> {
    let find = || run(vfs.metadata(path.as_bytes(), Symlinks::Keep)).ok().map(|found| found.attr.number);
    let found = find();
    assert_eq!(find(), found, "{path}");
    found
}

/// Creates a file. Returns the number of its inode.
fn create(vfs: &Vfs<TestSystem>, path: &str) -> Option<u64> {
    let opened = vfs.try_open(path.as_bytes(), O_CREAT | O_EXCL | O_WRONLY, 0o644);
    match opened {
        Some(file) => drop(file),
        None => drop(run(vfs.open(path.as_bytes(), O_CREAT | O_EXCL | O_WRONLY, 0o644)).unwrap()),
    }
    find(vfs, path)
}

fn remove(vfs: &Vfs<TestSystem>, path: &str) {
    let removed = vfs.try_remove_file(path.as_bytes());
    removed.map_or_else(|| run(vfs.remove_file(path.as_bytes())), Ok).unwrap();
}

#[test]
fn cached_path_leads_where_its_names_do_after_each_kind_of_change() {
    let (_, vfs) = vfs(1 << 20);
    let rename =
        |from: &str, to: &str, flags| run(vfs.rename(from.as_bytes(), to.as_bytes(), flags)).unwrap();
    for path in ["/a", "/b", "/a/sub"] {
        run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
    }
    assert_eq!(find(&vfs, "/a/x"), None);
    let first = create(&vfs, "/a/x");
    assert!(first.is_some());
    // Then another inode gets the same number.
    remove(&vfs, "/a/x");
    assert_eq!(find(&vfs, "/a/x"), None);
    let second = create(&vfs, "/a/x");
    // One of two names is removed.
    run(vfs.create_link(b"/a/x", b"/a/y")).unwrap();
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/a/y")), (second, second));
    remove(&vfs, "/a/x");
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/a/y")), (None, second));
    // Names are moved, replaced and exchanged.
    rename("/a/y", "/a/x", RenameFlags::empty());
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/a/y")), (second, None));
    let third = create(&vfs, "/a/y");
    rename("/a/y", "/a/x", RenameFlags::EXCHANGE);
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/a/y")), (third, second));
    rename("/a/y", "/a/x", RenameFlags::empty());
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/a/y")), (second, None));
    // Directories are moved and removed.
    rename("/a", "/b", RenameFlags::EXCHANGE);
    assert_eq!((find(&vfs, "/a/x"), find(&vfs, "/b/x")), (None, second));
    assert!(find(&vfs, "/b/sub").is_some());
    run(vfs.remove_directory(b"/b/sub")).unwrap();
    assert_eq!(find(&vfs, "/b/sub"), None);
    remove(&vfs, "/b/x");
    // A symbolic link is not cached, since a path may lead to the link or to its target.
    run(vfs.create_symlink(b"/a", b"/b/x")).unwrap();
    assert_ne!(find(&vfs, "/b/x"), find(&vfs, "/a"));
    let followed = run(vfs.metadata(b"/b/x", Symlinks::Follow)).unwrap().attr.number;
    assert_eq!(Some(followed), find(&vfs, "/a"));
}

#[test]
fn mount_hides_the_paths_below_its_directory() {
    let (_, vfs) = vfs(1 << 20);
    run(vfs.create_directory(b"/a", 0o755)).unwrap();
    assert!(create(&vfs, "/a/x").is_some());
    run(vfs.mount(Arc::new(RamFs::<TestSystem>::new(1 << 20).unwrap()), b"/a", false)).unwrap();
    assert_eq!((find(&vfs, "/a"), find(&vfs, "/a/x")), (Some(1), None));
    assert_eq!(create(&vfs, "/a/y"), Some(2));
}

#[test]
fn relative_path_is_cached_for_the_current_directory_alone() {
    let (_, vfs) = vfs(1 << 20);
    for path in ["/a", "/a/b", "/b"] {
        run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
    }
    let (inner, outer) = (create(&vfs, "/a/b/x"), create(&vfs, "/b/x"));
    for (directory, expected) in [("/a", inner), ("/", outer), ("/a", inner)] {
        run(vfs.change_directory(directory.as_bytes())).unwrap();
        assert_eq!((find(&vfs, "b/x"), find(&vfs, "/b/x")), (expected, outer));
    }
}

#[test]
fn fast_paths_fail_as_the_walk_does() {
    let (_, vfs) = vfs(1 << 20);
    create(&vfs, "/file");
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    assert!(find(&vfs, "/d").is_some());
    // A file is no directory; a directory is not removed as a file.
    assert!(vfs.try_open(b"/file/new", O_CREAT | O_WRONLY, 0o644).is_none());
    for path in [b"/d".as_slice(), b"/absent"] {
        assert!(vfs.try_remove_file(path).is_none());
    }
    for path in [&b""[..], b"/", b"/file/", b"/d/..", b"/d/.", b"/a\0b"] {
        assert!(vfs.try_open(path, O_CREAT | O_WRONLY, 0o644).is_none(), "{}", path.escape_ascii());
        assert!(vfs.try_remove_file(path).is_none(), "{}", path.escape_ascii());
    }
    // An existing name is opened by the walk, or is an error of it.
    assert!(find(&vfs, "/file").is_some());
    assert!(vfs.try_open(b"/file", O_RDONLY, 0).is_some());
    for flags in [O_CREAT | O_EXCL, O_CREAT | O_TRUNC | O_WRONLY] {
        assert!(vfs.try_open(b"/file", flags, 0o644).is_none());
    }
}

#[test]
fn existing_file_is_opened_with_o_creat_where_none_can_be_created() {
    let (ramfs, vfs) = vfs(1 << 20);
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    create(&vfs, "/d/x");
    vfs.forget_names();
    assert!(find(&vfs, "/d").is_some());
    // No further name fits into the file system.
    let usage = || run(vfs.usage(b"/")).unwrap();
    let file = run(vfs.open(b"/fill", O_CREAT | O_WRONLY, 0o644)).unwrap();
    let OpenedPath::File(file) = file else { panic!("a ramfs has no devices") };
    for page in 0..usage().free_blocks {
        let _: Result<usize, Errno> = run(file.write_at(page << 12, &[1; 4096]));
    }
    let open = |flags| match vfs.try_open(b"/d/x", flags, 0o644) {
        Some(_) => Ok(()),
        None => run(vfs.open(b"/d/x", flags, 0o644)).map(drop),
    };
    assert_eq!(open(O_CREAT | O_WRONLY), Ok(()));
    assert_eq!(open(O_CREAT | O_EXCL | O_WRONLY), Err(Errno::EEXIST));
    drop(ramfs);
}

#[test]
fn removal_of_a_directory_that_a_server_has_emptied_ends_paths_below_it() {
    let shared = Shared::new(u64::MAX);
    run(shared.host.create_directory(b"/d", 0o755)).unwrap();
    append(&shared.host, "/d/f");
    assert_eq!(shared.size("/m/d/f"), Ok(1));
    run(shared.host.remove_file(b"/d/f")).unwrap();
    run(shared.guest.remove_directory(b"/m/d")).unwrap();
    run(shared.guest.create_directory(b"/m/d", 0o755)).unwrap();
    drop(open(&shared.guest, "/m/d/f"));
    assert_eq!(shared.size("/m/d/f"), Ok(0));
    assert!(run(shared.host.metadata(b"/d/f", Symlinks::Keep)).is_ok());
}

#[test]
fn path_on_a_server_is_found_until_its_names_expire() {
    let shared = Shared::new(10);
    append(&shared.host, "/file");
    MONOTONIC.set(0);
    assert_eq!(shared.size("/m/file"), Ok(1));
    shared.folder.take_counts();
    run(shared.host.rename(b"/file", b"/moved", RenameFlags::empty())).unwrap();
    MONOTONIC.set(9);
    assert_eq!((shared.size("/m/file"), shared.folder.take_counts()), (Ok(1), (0, 0)));
    MONOTONIC.set(10);
    assert_eq!((shared.size("/m/file"), shared.folder.take_counts().0), (Err(Errno::ENOENT), 1));
    MONOTONIC.set(0);
}

#[test]
fn removed_file_is_freed_although_paths_to_it_were_cached() {
    let (_, vfs) = vfs(1 << 20);
    let inodes = || run(vfs.usage(b"/")).unwrap().inodes;
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    let before = inodes();
    create(&vfs, "/d/x");
    for path in ["/d//x", "/d/./x", "//d/x"] {
        assert!(find(&vfs, path).is_some());
    }
    remove(&vfs, "/d/x");
    assert_eq!(inodes(), before);
}

/// Creates, finds, moves and removes a file that only this thread uses. Its inode number may be one that a
/// file of another thread had before.
fn change(vfs: &Vfs<TestSystem>, thread: u32, call: u32) {
    // The threads use more names than the cache has entries.
    let path = format!("/a/{thread}-{}", call % 80);
    let found = create(vfs, &path);
    assert!(found.is_some());
    if call.is_multiple_of(16) {
        let moved = format!("/c/{thread}");
        run(vfs.rename(path.as_bytes(), moved.as_bytes(), RenameFlags::empty())).unwrap();
        assert_eq!((find(vfs, &path), find(vfs, &moved)), (None, found));
        remove(vfs, &moved);
    } else {
        remove(vfs, &path);
    }
    assert_eq!(find(vfs, &path), None);
}

#[test]
fn own_changes_are_seen_at_once_beside_those_of_other_threads() {
    const CALLS: u32 = if cfg!(miri) { 10 } else { 3_000 };
    let (_, vfs) = vfs(1 << 20);
    for path in ["/a", "/c"] {
        run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
    }
    let changes = |thread| (0..CALLS).for_each(|call| change(&vfs, thread, call));
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || changes(thread));
        }
    });
}

#[test]
fn directory_is_opened_by_a_cached_path() {
    let (_, vfs) = vfs(1 << 20);
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    for _ in 0..2 {
        assert!(matches!(run(vfs.open(b"/d", O_RDONLY, 0)), Ok(OpenedPath::File(_))));
        assert_eq!(run(vfs.open(b"/d", O_WRONLY, 0)).map(drop), Err(Errno::EISDIR));
    }
}
