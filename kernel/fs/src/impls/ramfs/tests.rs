//! Tests of the limit of memory.

use super::inode::NAME_SIZE;
use crate::impls::RamFs;
use crate::interface::PAGE_SIZE;
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::OpenedPath;
use alloc::sync::Arc;
use hermit_abi::{O_CREAT, O_EXCL, O_WRONLY};
use hermit_interface::Errno;
use std::format;

const SIZE: u64 = 100 * NAME_SIZE;

#[test]
fn names_and_inodes_count_towards_the_limit_and_are_given_back() {
    let (ramfs, vfs) = vfs(SIZE);
    let free = || ramfs.usage.limit_and_free().1;
    for _ in 0..if cfg!(miri) { 1 } else { 3 } {
        let names = (0..)
            .take_while(|number| run(vfs.create_directory(format!("/{number}").as_bytes(), 0o755)).is_ok());
        assert_eq!((names.count(), free()), (100, 0));
        assert_eq!(run(vfs.create_symlink(b"x", b"/link")), Err(Errno::ENOSPC));
        for number in 0..100 {
            run(vfs.remove_directory(format!("/{number}").as_bytes())).unwrap();
        }
        assert_eq!(free(), SIZE);
    }
}

#[test]
fn further_names_and_targets_count_until_they_are_removed() {
    let (ramfs, vfs) = vfs(SIZE);
    let used = || SIZE - ramfs.usage.limit_and_free().1;
    run(vfs.create_symlink(b"target", b"/x")).unwrap();
    run(vfs.create_link(b"/x", b"/y")).unwrap();
    assert_eq!(run(vfs.create_link(b"/x", b"/y")), Err(Errno::EEXIST));
    assert_eq!(used(), 2 * NAME_SIZE + 6);
    run(vfs.remove_file(b"/x")).unwrap();
    assert_eq!(used(), NAME_SIZE + 6);
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    run(vfs.rename(b"/y", b"/z", crate::RenameFlags::empty())).unwrap();
    run(vfs.create_link(b"/z", b"/y")).unwrap();
    run(vfs.create_symlink(b"", b"/w")).unwrap_err();
    run(vfs.rename(b"/y", b"/z", crate::RenameFlags::empty())).unwrap();
    run(vfs.remove_file(b"/y")).unwrap();
    run(vfs.remove_file(b"/z")).unwrap();
    run(vfs.remove_directory(b"/d")).unwrap();
    assert_eq!(used(), 0);
}

#[test]
fn full_file_system_fails_only_calls_that_add_to_it() {
    const CREATE: i32 = O_CREAT | O_WRONLY;
    let (_, vfs) = vfs(SIZE);
    let open = |path: &[u8], flags| run(vfs.open(path, flags, 0o666)).map(drop);
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    run(vfs.create_directory(b"/other", 0o755)).unwrap();
    run(vfs.create_symlink(b"d", b"/link")).unwrap();
    run(vfs.mount(Arc::new(RamFs::<TestSystem>::new(SIZE).unwrap()), b"/other", false)).unwrap();
    assert_eq!(open(b"/d/x", CREATE), Ok(()));
    let link = |number: u64| run(vfs.create_link(b"/d/x", format!("/{number}").as_bytes()));
    assert_eq!((0..).find_map(|number| link(number).err()), Some(Errno::ENOSPC));
    assert_eq!(open(b"/d/y", CREATE), Err(Errno::ENOSPC));
    for path in [&b"/other/x"[..], b"/link/x", b"/d/../d/x"] {
        assert_eq!(open(path, CREATE), Ok(()), "{}", path.escape_ascii());
    }
    assert_eq!(open(b"/d/x", CREATE | O_EXCL), Err(Errno::EEXIST));
    assert_eq!(open(b"/absent/x", CREATE), Err(Errno::ENOENT));
    assert_eq!(open(b"/d/x/y", CREATE), Err(Errno::ENOTDIR));
}

#[test]
fn branches_above_the_pages_of_sparse_files_count() {
    let (ramfs, vfs) = vfs(1 << 20);
    let used = || (1 << 20) - ramfs.usage.limit_and_free().1;
    let Ok(OpenedPath::File(opened)) = run(vfs.open(b"/x", O_CREAT | O_WRONLY, 0o666)) else { panic!() };
    let page = |number: u64| opened.write_at(number * PAGE_SIZE as u64, b"x");
    assert_eq!((run(page(0)), used()), (Ok(1), NAME_SIZE + 4096));
    // The tree has seven levels. The paths to its first and to its last page have one branch in common.
    assert_eq!((run(page(1 << 40)), used()), (Ok(1), NAME_SIZE + 2 * 4096 + 13 * 1024));
    let before = used();
    assert_eq!((run(page((1 << 40) + 1)), used()), (Ok(1), before + 4096));
    // If there is no space for the page's five branches, or for the page in addition to the branches, the
    // page is not written and nothing is charged.
    for left in [4096, 5 * 1024, 5 * 1024 + 4095] {
        let others = ramfs.usage.limit_and_free().1 - left;
        ramfs.usage.charge(others).unwrap();
        assert_eq!((run(page(1 << 30)), ramfs.usage.limit_and_free().1), (Err(Errno::ENOSPC), left));
        ramfs.usage.release(others);
    }
    run(opened.set_size(0)).unwrap();
    assert_eq!(used(), NAME_SIZE);
    drop(opened);
    run(vfs.remove_file(b"/x")).unwrap();
    assert_eq!(used(), 0);
}
