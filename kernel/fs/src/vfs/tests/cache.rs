//! Tests of cached names and attributes. They are kept as long as the file system permits, but only until
//! this machine changes them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll, Waker};

use hermit_abi::{O_CREAT, O_WRONLY};
use hermit_interface::Errno;

use super::kept::{BEFORE_READDIR, Kept, Shared, append, open};
use crate::interface::{RenameFlags, SetAttr, SetTime, System as _, Time};
use crate::testing::{ARCS, MONOTONIC, TestSystem, run, vfs};
use crate::vfs::{Symlinks, Vfs, join_each};

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[test]
fn without_validity_changes_of_the_host_are_seen_at_once() {
    let shared = Shared::new(0);
    assert_eq!(shared.size("/m/x"), Err(Errno::ENOENT));
    append(&shared.host, "/x");
    assert_eq!(shared.size("/m/x"), Ok(1));
    append(&shared.host, "/x");
    assert_eq!(shared.size("/m/x"), Ok(2));
    run(shared.host.remove_file(b"/x")).unwrap();
    assert_eq!(shared.size("/m/x"), Err(Errno::ENOENT));
}

#[test]
fn changes_of_the_host_are_seen_when_the_validity_ends() {
    let shared = Shared::new(SECOND);
    assert_eq!(shared.size("/m/x"), Err(Errno::ENOENT));
    append(&shared.host, "/x");
    MONOTONIC.set(SECOND - 1);
    assert_eq!(shared.size("/m/x"), Err(Errno::ENOENT));
    MONOTONIC.set(SECOND);
    assert_eq!(shared.size("/m/x"), Ok(1));
    append(&shared.host, "/x");
    run(shared.host.rename(b"/x", b"/y", RenameFlags::empty())).unwrap();
    MONOTONIC.set(2 * SECOND - 1);
    assert_eq!(shared.size("/m/x"), Ok(1));
    MONOTONIC.set(2 * SECOND);
    assert_eq!((shared.size("/m/x"), shared.size("/m/y")), (Err(Errno::ENOENT), Ok(2)));
}

#[test]
fn valid_names_and_attributes_are_not_asked_for_again() {
    let shared = Shared::new(u64::MAX);
    run(shared.host.create_directory(b"/d", 0o755)).unwrap();
    append(&shared.host, "/d/x");
    for lookups in [3, 0, 0] {
        assert_eq!((shared.size("/m/d/x"), shared.size("/m/d/none")), (Ok(1), Err(Errno::ENOENT)));
        assert_eq!(shared.folder.take_counts(), (lookups, 0));
    }
    // Only the host changes the file. The guest does not see the change, because the cached attributes never
    // expire.
    append(&shared.host, "/d/x");
    run(shared.host.remove_file(b"/d/x")).unwrap();
    assert_eq!(shared.size("/m/d/x"), Ok(1));
    shared.guest.forget_names();
    assert_eq!(shared.size("/m/d/x"), Err(Errno::ENOENT));
}

#[test]
fn own_changes_are_seen_at_once() {
    let shared = Shared::new(u64::MAX);
    let guest = &shared.guest;
    assert_eq!(shared.size("/m/x"), Err(Errno::ENOENT));
    append(guest, "/m/x");
    assert_eq!(shared.size("/m/x"), Ok(1));
    append(guest, "/m/x");
    run(guest.create_link(b"/m/x", b"/m/y")).unwrap();
    let links = |path: &str| run(guest.metadata(path.as_bytes(), Symlinks::Keep)).unwrap().attr.nlink;
    assert_eq!((shared.size("/m/y"), links("/m/x"), links("/m/y")), (Ok(2), 2, 2));
    append(guest, "/m/x");
    run(guest.remove_file(b"/m/x")).unwrap();
    assert_eq!((shared.size("/m/x"), shared.size("/m/y"), links("/m/y")), (Err(Errno::ENOENT), Ok(3), 1));
    run(guest.rename(b"/m/y", b"/m/x", RenameFlags::empty())).unwrap();
    assert_eq!((shared.size("/m/x"), shared.size("/m/y")), (Ok(3), Err(Errno::ENOENT)));
    assert_eq!(links("/m"), 2);
    run(guest.create_directory(b"/m/y", 0o755)).unwrap();
    assert_eq!(links("/m"), 3);
    run(guest.remove_directory(b"/m/y")).unwrap();
    assert_eq!((shared.size("/m/y"), links("/m")), (Err(Errno::ENOENT), 2));
}

#[test]
fn attributes_of_a_lookup_are_not_kept_while_writes_are_collected() {
    let shared = Shared::new(u64::MAX);
    shared.folder.write_back_size.store(1000, Relaxed);
    let file = open(&shared.guest, "/m/x");
    assert_eq!((run(file.write(b"a")), run(file.write(b"b"))), (Ok(1), Ok(1)));
    let seen_by_host = || run(shared.host.metadata(b"/x", Symlinks::Keep)).unwrap().attr.size;
    assert_eq!(seen_by_host(), 1);
    assert_eq!(shared.size("/m/x"), Ok(2));
    assert_eq!(seen_by_host(), 2);
    assert_eq!(run(file.write(b"c")), Ok(1));
    assert_eq!((seen_by_host(), shared.size("/m/x"), seen_by_host()), (2, Ok(3), 3));
}

#[test]
fn change_time_of_collected_writes_is_that_of_their_flush() {
    let shared = Shared::new(u64::MAX);
    shared.folder.write_back_size.store(1000, Relaxed);
    let mtime =
        |vfs: &Vfs<TestSystem>, path: &[u8]| run(vfs.metadata(path, Symlinks::Keep)).unwrap().attr.mtime;
    let (on_host, in_guest) = (|| mtime(&shared.host, b"/x"), || mtime(&shared.guest, b"/m/x"));
    let file = open(&shared.guest, "/m/x");
    let flushes: [(&str, &dyn Fn()); 4] = [
        ("after a second", &|| {
            MONOTONIC.set(MONOTONIC.get() + SECOND);
            assert_eq!(run(shared.guest.write_back(0, true)), Ok(None));
        }),
        ("metadata", &|| {
            in_guest();
        }),
        ("close", &|| run(file.flush()).unwrap()),
        ("sync", &|| run(file.sync(true)).unwrap()),
    ];
    assert_eq!(run(file.write(b"a")), Ok(1));
    for (name, flush) in flushes {
        let before = on_host();
        assert_eq!((run(file.write(b"b")), on_host()), (Ok(1), before), "{name}: collected");
        let written = TestSystem::now();
        flush();
        let flushed = on_host();
        assert!(flushed > written, "{name}: {flushed:?} is not after {written:?}");
        assert_eq!((in_guest(), in_guest(), on_host()), (flushed, flushed, flushed), "{name}: seen by both");
    }
}

#[test]
fn change_time_that_the_program_sets_is_not_that_of_writes_collected_before() {
    let shared = Shared::new(u64::MAX);
    shared.folder.write_back_size.store(1000, Relaxed);
    let file = open(&shared.guest, "/m/x");
    assert_eq!((run(file.write(b"a")), run(file.write(b"b"))), (Ok(1), Ok(1)));
    let set = Time { seconds: 5, nanoseconds: 7 };
    run(file.set_attributes(&SetAttr { mtime: Some(SetTime::To(set)), ..SetAttr::default() })).unwrap();
    run(file.flush()).unwrap();
    drop(file);
    assert_eq!(run(shared.guest.write_back(0, false)), Ok(None));
    for (vfs, path) in [(&shared.host, "/x"), (&shared.guest, "/m/x")] {
        let attr = run(vfs.metadata(path.as_bytes(), Symlinks::Keep)).unwrap().attr;
        assert_eq!((attr.mtime, attr.size), (set, 2), "{path}");
    }
}

#[test]
fn server_that_does_not_answer_does_not_delay_writes_to_others() {
    let shared = Shared::new(u64::MAX);
    let (ramfs, host) = vfs(1 << 20);
    let hung = Kept::new(ramfs, u64::MAX);
    run(shared.guest.create_directory(b"/hung", 0o755)).unwrap();
    run(shared.guest.mount(hung.clone(), b"/hung", false)).unwrap();
    // The server that hangs may also be the first one.
    let others = Kept::new(vfs(1 << 20).0, u64::MAX);
    run(shared.guest.create_directory(b"/last", 0o755)).unwrap();
    run(shared.guest.mount(others.clone(), b"/last", false)).unwrap();
    let files = [(&shared.folder, "/m/x"), (&hung, "/hung/x"), (&others, "/last/x")].map(|(folder, path)| {
        folder.write_back_size.store(1000, Relaxed);
        let file = open(&shared.guest, path);
        assert_eq!((run(file.write(b"a")), run(file.write(b"b"))), (Ok(1), Ok(1)));
        file
    });
    hung.hangs.store(true, Relaxed);
    let size = |vfs: &Vfs<TestSystem>| run(vfs.metadata(b"/x", Symlinks::Keep)).unwrap().attr.size;
    let last = Vfs::<TestSystem>::new(others.ramfs.clone()).unwrap();
    assert_eq!((size(&shared.host), size(&host), size(&last)), (1, 1, 1));
    let write = |mount| {
        let guest = &shared.guest;
        async move { assert_eq!(guest.write_back(mount, false).await, Ok(None)) }
    };
    join_each(shared.guest.write_back_mounts(), &write, &mut |poll| {
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(poll(&mut context), Poll::Pending);
        assert_eq!((size(&shared.host), size(&host), size(&last)), (2, 1, 2));
        hung.hangs.store(false, Relaxed);
        assert_eq!(poll(&mut context), Poll::Ready(()));
    });
    assert_eq!(size(&host), 2);
    drop(files);
}

#[test]
fn mounts_for_reading_only_and_more_than_sixteen_collect_no_writes() {
    let (_, vfs_) = vfs(1 << 20);
    for number in 0..20 {
        let path = format!("/{number}");
        run(vfs_.create_directory(path.as_bytes(), 0o755)).unwrap();
        let folder = Kept::new(vfs(1 << 20).0, u64::MAX);
        folder.write_back_size.store(1000, Relaxed);
        run(vfs_.mount(folder.clone(), path.as_bytes(), number == 0)).unwrap();
        if number > 0 {
            let file = open(&vfs_, &format!("{path}/x"));
            assert_eq!((run(file.write(b"a")), run(file.write(b"b"))), (Ok(1), Ok(1)));
            let host = Vfs::<TestSystem>::new(folder.ramfs.clone()).unwrap();
            let size = run(host.metadata(b"/x", Symlinks::Keep)).unwrap().attr.size;
            assert_eq!(size, if number > 16 { 2 } else { 1 }, "{number}");
        }
    }
    assert_eq!(vfs_.write_back_mounts(), 16);
}

#[test]
fn parents_of_a_moved_directory_are_its_new_ones() {
    let shared = Shared::new(u64::MAX);
    let guest = &shared.guest;
    for path in ["/m/a", "/m/b", "/m/a/d", "/m/a/d/e"] {
        run(guest.create_directory(path.as_bytes(), 0o755)).unwrap();
        shared.size(path).unwrap();
    }
    append(guest, "/m/a/file");
    assert_eq!(shared.size("/m/a/d/e/../../file"), Ok(1));
    run(guest.rename(b"/m/a/d", b"/m/b/d", RenameFlags::empty())).unwrap();
    assert_eq!(shared.size("/m/b/d/e/../../file"), Err(Errno::ENOENT));
    assert_eq!(run(guest.real_path(b"/m/b/d/e")).as_deref(), Ok(&b"/m/b/d/e"[..]));
}

#[test]
fn current_directory_is_found_where_it_and_those_above_it_were_renamed() {
    // Without validity, nothing is cached, so each walk creates new nodes.
    for validity in [0, u64::MAX] {
        let shared = Shared::new(validity);
        let guest = &shared.guest;
        for path in ["/m/a", "/m/b", "/m/a/d", "/m/b/x", "/m/a/d/e"] {
            run(guest.create_directory(path.as_bytes(), 0o755)).unwrap();
        }
        run(guest.change_directory(b"/m/a/d/e")).unwrap();
        let path_after = |from: &str, to: &str, flags| {
            run(guest.rename(from.as_bytes(), to.as_bytes(), flags)).unwrap();
            String::from_utf8(run(guest.current_path()).unwrap()).unwrap()
        };
        let none = RenameFlags::empty();
        assert_eq!(path_after("/m/a/d", "/m/b/f", none), "/m/b/f/e");
        assert_eq!(path_after("../e", "/m/a/g", none), "/m/a/g");
        assert_eq!(path_after("/m/b/x", "/m/a/g", RenameFlags::EXCHANGE), "/m/b/x");
        assert_eq!(path_after("/m/a/g", "/m/b/x", RenameFlags::EXCHANGE), "/m/a/g");
        assert_eq!(path_after("/m/a", "/m/b/x/a", none), "/m/b/x/a/g");
        assert_eq!(run(guest.metadata(b"../../../f", Symlinks::Keep)).map(drop), Ok(()));
    }
}

#[test]
fn directory_with_the_number_of_a_removed_one_has_names_of_its_own() {
    let shared = Shared::new(u64::MAX);
    for path in ["/d", "/e"] {
        let in_guest = format!("/m{path}");
        run(shared.host.create_directory(path.as_bytes(), 0o755)).unwrap();
        assert_eq!(shared.size(&format!("{in_guest}/x")), Err(Errno::ENOENT));
        run(shared.guest.remove_directory(in_guest.as_bytes())).unwrap();
        run(shared.host.create_directory(path.as_bytes(), 0o755)).unwrap();
        append(&shared.host, &format!("{path}/x"));
        assert_eq!(shared.size(&format!("{in_guest}/x")), Ok(1));
    }
}

#[test]
fn path_of_the_current_directory_is_one_that_it_has_during_a_rename() {
    let (ramfs, _) = vfs(1 << 20);
    let vfs = Arc::new(Vfs::<TestSystem>::new(Kept::new(ramfs, 0)).unwrap());
    for path in ["/a", "/a/d", "/b"] {
        run(vfs.create_directory(path.as_bytes(), 0o755)).unwrap();
    }
    run(vfs.change_directory(b"/a/d")).unwrap();
    let renaming = Arc::clone(&vfs);
    let rename = move || run(renaming.rename(b"/a", b"/b/a", RenameFlags::empty())).unwrap();
    BEFORE_READDIR.set(Some(Box::new(rename)));
    assert_eq!(run(vfs.current_path()).as_deref(), Ok(&b"/b/a/d"[..]));
    let renaming = Arc::clone(&vfs);
    let rename = move || run(renaming.rename(b"/b", b"/c", RenameFlags::empty())).unwrap();
    BEFORE_READDIR.set(Some(Box::new(rename)));
    assert_eq!(run(vfs.current_path()).as_deref(), Ok(&b"/c/a/d"[..]));
}

#[test]
fn failed_creation_leaves_no_file_on_a_server() {
    let shared = Shared::new(u64::MAX);
    for arcs in 0.. {
        ARCS.set(arcs);
        let created = run(shared.guest.open(b"/m/new", O_CREAT | O_WRONLY, 0o666)).map(drop);
        ARCS.set(usize::MAX);
        if created.is_ok() {
            assert!(arcs > 0, "it needs memory");
            break;
        }
        assert_eq!((created, shared.size("/m/new")), (Err(Errno::ENOMEM), Err(Errno::ENOENT)));
    }
    assert_eq!(shared.size("/m/new"), Ok(0));
}

#[test]
fn number_of_kept_names_is_bounded_and_their_inodes_are_given_back() {
    let shared = Shared::new(u64::MAX);
    let inodes = || run(shared.host.usage(b"/")).unwrap().inodes;
    let before = inodes();
    let names: Vec<String> =
        (0..if cfg!(miri) { 150 } else { 1000 }).map(|number| format!("/m/{number}")).collect();
    for name in &names {
        drop(open(&shared.guest, name));
        shared.size(name).unwrap();
    }
    // The host removes the files, so their inodes exist only as long as the guest refers to them.
    for name in &names {
        run(shared.host.remove_file(&name.as_bytes()[2..])).unwrap();
    }
    let kept = inodes() - before;
    assert!((1..=512).contains(&kept), "{kept} inodes are kept");
    shared.guest.forget_names();
    assert_eq!(inodes(), before);
}
