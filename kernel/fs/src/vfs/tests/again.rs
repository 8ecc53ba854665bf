//! Tests of open files that are retired and used again.

extern crate std;

use crate::testing::{TestSystem, run, vfs};
use crate::{FileLock, OpenFile, RamFs, Vfs};
use alloc::sync::Arc;
use core::mem::MaybeUninit;
use hermit_abi::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use hermit_interface::Errno;
use hermit_io::{Object as _, Positioned as _, ReadBuffer};

type File = Arc<OpenFile<TestSystem>>;

fn open(vfs: &Vfs<TestSystem>, path: &[u8], flags: i32) -> File {
    vfs.try_open(path, flags, 0o666).expect("no walk").unwrap()
}

/// Retires the open file. Returns true if this is possible.
fn retire(file: &mut File) -> bool {
    Arc::get_mut(file).is_some_and(OpenFile::try_retire)
}

/// Opens a path with a retired open file. Returns true if this is possible.
fn open_again(vfs: &Vfs<TestSystem>, path: &[u8], flags: i32, retired: &mut File) -> bool {
    let is_open = vfs.with_start(path, |start| {
        let mut found = start.try_find(path, flags).expect("no walk");
        let is_open = found.open_again(retired);
        if !is_open {
            drop(found.open());
        }
        Some(is_open)
    });
    is_open.expect("a path of files")
}

fn read(file: &File) -> Result<usize, Errno> {
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buffer = ReadBuffer::new(&mut memory);
    run(file.read(&mut buffer)).map(|()| buffer.len())
}

#[test]
fn retired_open_file_is_as_new_when_it_is_used_again() {
    let (_, vfs) = vfs(1 << 20);
    let mut file = open(&vfs, b"/a", O_CREAT | O_WRONLY | O_APPEND);
    assert_eq!(run(file.write(b"abc")), Ok(3));
    run(file.flush()).unwrap();
    drop(open(&vfs, b"/b", O_CREAT | O_WRONLY));
    assert!(retire(&mut file));
    assert!(open_again(&vfs, b"/b", O_RDONLY, &mut file));
    assert_eq!((file.status_flags(), file.position()), (O_RDONLY, 0));
    assert_eq!((read(&file), run(file.write(b"x"))), (Ok(0), Err(Errno::EBADF)));
    assert!(retire(&mut file));
    assert!(open_again(&vfs, b"/a", O_RDWR, &mut file));
    assert_eq!((file.status_flags(), read(&file), file.position()), (O_RDWR, Ok(3), 3));
    assert!(retire(&mut file));
}

#[test]
fn retired_open_file_has_no_reference_to_an_inode() {
    let (ramfs, vfs) = vfs(1 << 20);
    let inodes = || run(vfs.usage(b"/")).unwrap().inodes;
    let before = inodes();
    let mut file = open(&vfs, b"/a", O_CREAT | O_WRONLY);
    assert!(retire(&mut file));
    run(vfs.remove_file(b"/a")).unwrap();
    assert_eq!(inodes(), before);
    // It does not drop a reference to the inode that now has the same number, either.
    let other = open(&vfs, b"/b", O_CREAT | O_WRONLY);
    run(vfs.remove_file(b"/b")).unwrap();
    drop(file);
    assert_eq!((inodes(), run(other.write(b"x"))), (before + 1, Ok(1)));
    drop(other);
    assert_eq!(inodes(), before);
    drop(ramfs);
}

#[test]
fn reference_of_an_open_file_that_is_used_again_keeps_the_inode() {
    let (_, vfs) = vfs(1 << 20);
    let inodes = || run(vfs.usage(b"/")).unwrap().inodes;
    let before = inodes();
    let mut file = open(&vfs, b"/a", O_CREAT | O_RDWR);
    assert!(retire(&mut file) && open_again(&vfs, b"/a", O_RDWR, &mut file));
    run(vfs.remove_file(b"/a")).unwrap();
    assert_eq!((run(file.write(b"abc")), inodes()), (Ok(3), before + 1));
    run(file.flush()).unwrap();
    assert!(!retire(&mut file), "the last reference frees the file");
    drop(file);
    assert_eq!(inodes(), before);
}

#[test]
fn open_file_with_something_left_to_do_is_not_retired() {
    let (_, vfs) = vfs(1 << 20);
    let mut file = open(&vfs, b"/a", O_CREAT | O_RDWR);
    run(file.lock(FileLock::Exclusive, true)).unwrap();
    assert!(!retire(&mut file), "it has a lock");
    file.unlock();
    assert!(retire(&mut file));
    run(vfs.create_directory(b"/d", 0o755)).unwrap();
    assert!(!retire(&mut open(&vfs, b"/d", O_RDONLY)), "a directory is opened in the file system");
}

#[test]
fn retired_open_file_is_not_used_for_another_mount_or_a_directory() {
    let (_, vfs) = vfs(1 << 20);
    for path in [b"/d", b"/e"] {
        run(vfs.create_directory(path, 0o755)).unwrap();
    }
    run(vfs.mount(Arc::new(RamFs::<TestSystem>::new(1 << 20).unwrap()), b"/d", false)).unwrap();
    let mut file = open(&vfs, b"/a", O_CREAT | O_RDWR);
    assert!(retire(&mut file));
    assert!(!open_again(&vfs, b"/e", O_RDONLY, &mut file));
    // The walk begins in the other mount.
    run(vfs.change_directory(b"/d")).unwrap();
    drop(open(&vfs, b"x", O_CREAT | O_RDWR));
    assert!(!open_again(&vfs, b"x", O_RDWR, &mut file));
    assert!(open_again(&vfs, b"/a", O_RDWR, &mut file));
}
