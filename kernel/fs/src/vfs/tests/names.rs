//! Names in removed directories.

use hermit_interface::Errno;

use crate::RenameFlags;
use crate::testing::{run, vfs};

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
