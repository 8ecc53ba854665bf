//! Names in removed directories.

use alloc::sync::Arc;

use hermit_abi::{O_CREAT, O_EXCL, O_WRONLY};
use hermit_interface::{Errno, MAX_PATH};

use crate::interface::RenameFlags;
use crate::testing::{ARCS, run, vfs};
use crate::vfs::Symlinks;

#[test]
fn nothing_moves_into_a_removed_directory() {
    let (_, vfs) = vfs(1 << 20);
    for directory in [&b"/a"[..], b"/a/b"] {
        run(vfs.create_directory(directory, 0o777)).unwrap();
    }
    run(vfs.change_directory(b"/a/b")).unwrap();
    run(vfs.remove_directory(b"/a/b")).unwrap();
    run(vfs.remove_directory(b"/a")).unwrap();
    // This one has the number of the parent of the removed directory.
    run(vfs.create_directory(b"/c", 0o777)).unwrap();
    assert_eq!(run(vfs.rename(b"/c", b"x", RenameFlags::empty())), Err(Errno::ENOENT));
}

#[test]
fn target_of_a_link_and_what_follows_it_are_limited_each_by_itself() {
    let (_, vfs) = vfs(1 << 20);
    let target = [b"/".to_vec(), b"./".repeat(2_000)].concat();
    run(vfs.create_symlink(&target, b"/link")).unwrap();
    let path = [b"/link/".to_vec(), b"./".repeat(2_000)].concat();
    assert!(target.len() + path.len() > MAX_PATH);
    assert!(run(vfs.metadata(&path, Symlinks::Follow)).is_ok());
}

#[test]
fn parent_of_a_removed_directory_is_found_as_on_linux() {
    let (ramfs, vfs) = vfs(1 << 20);
    let inodes = || run(vfs.usage(b"/")).unwrap().inodes;
    let before = inodes();
    for directory in [&b"/a"[..], b"/a/b", b"/a/b/c"] {
        run(vfs.create_directory(directory, 0o777)).unwrap();
    }
    let number = |path: &[u8]| run(vfs.metadata(path, Symlinks::Follow)).map(|metadata| metadata.attr.number);
    let (a, b) = (number(b"/a"), number(b"/a/b"));
    run(vfs.change_directory(b"/a/b/c")).unwrap();
    for directory in [&b"/a/b/c"[..], b"/a/b", b"/a"] {
        run(vfs.remove_directory(directory)).unwrap();
        assert_eq!((number(b".."), number(b"../..")), (b, a));
    }
    assert_eq!(run(vfs.create_directory(b"../new", 0o777)), Err(Errno::ENOENT));
    assert_eq!(run(vfs.current_path()), Err(Errno::ENOENT));
    assert_eq!(number(b"../../.."), number(b"/"));
    run(vfs.change_directory(b"/")).unwrap();
    assert_eq!(inodes(), before);
    drop(ramfs);
}

#[test]
fn open_without_memory_creates_nothing() {
    const CREATE: i32 = O_CREAT | O_WRONLY;
    let (_, vfs) = vfs(1 << 20);
    run(vfs.create_directory(b"/d", 0o777)).unwrap();
    let inodes = || run(vfs.usage(b"/")).unwrap().inodes;
    let before = inodes();
    for flags in [CREATE, CREATE | O_EXCL] {
        for arcs in 0.. {
            ARCS.set(arcs);
            let opened = run(vfs.open(b"/d/x", flags, 0o666)).map(drop);
            ARCS.set(usize::MAX);
            if opened.is_ok() {
                assert!(arcs > 0, "it needs memory");
                break;
            }
            let found = run(vfs.metadata(b"/d/x", Symlinks::Keep));
            assert_eq!((opened, found, inodes()), (Err(Errno::ENOMEM), Err(Errno::ENOENT), before));
        }
        run(vfs.remove_file(b"/d/x")).unwrap();
    }
}

#[test]
fn mounted_file_systems_end_with_the_virtual_file_system() {
    let (root, system) = vfs(1 << 20);
    let mounted = [(); 2].map(|()| vfs(1 << 20).0);
    for (file_system, path) in mounted.iter().zip([&b"/m"[..], b"/m/below"]) {
        run(system.create_directory(path, 0o755)).unwrap();
        run(system.mount(file_system.clone(), path, false)).unwrap();
    }
    run(system.create_directory(b"/m/below/d", 0o755)).unwrap();
    run(system.change_directory(b"/m/below/d")).unwrap();
    drop(system);
    assert!([root].iter().chain(&mounted).all(|file_system| Arc::strong_count(file_system) == 1));
}
