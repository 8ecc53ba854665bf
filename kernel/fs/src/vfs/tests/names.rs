//! Names in removed directories.

use hermit_interface::Errno;

use crate::testing::{run, vfs};
use crate::{MAX_PATH, RenameFlags, Symlinks};

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
