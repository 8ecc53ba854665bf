//! Tests of a ramfs with an initramfs, whose archives the crate `tar` writes.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use std::sync::Mutex;

use hermit_abi::O_RDWR;
use hermit_interface::Errno;
use hermit_interface::tar::TarReason;
use hermit_io::ReadBuffer;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::UnpackError;
use crate::impls::RamFs;
use crate::interface::{Attr, PAGE_SIZE, Time};
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::{DescriptorFile as _, OpenFile, OpenedPath, Symlinks, Vfs};

fn header(entry_type: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_size(size as u64);
    header.set_mode(0o604);
    header.set_mtime(77);
    header
}

/// The archives of all tests, which stay, as one does in the memory of a machine. Listed, they are no leak to
/// Miri.
static ARCHIVES: Mutex<Vec<&[u8]>> = Mutex::new(Vec::new());

/// The archive that a function fills.
fn archive(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> &'static [u8] {
    let mut builder = Builder::new(Vec::new());
    fill(&mut builder);
    let archive: &[u8] = Box::leak(builder.into_inner().expect("memory").into_boxed_slice());
    ARCHIVES.lock().expect("no test has panicked here").push(archive);
    archive
}

fn add(builder: &mut Builder<Vec<u8>>, entry_type: EntryType, path: &str, contents: &[u8]) {
    builder.append_data(&mut header(entry_type, contents.len()), path, contents).expect("memory");
}

fn add_link(builder: &mut Builder<Vec<u8>>, entry_type: EntryType, path: &str, target: &str) {
    builder.append_link(&mut header(entry_type, 0), path, target).expect("memory");
}

/// A ramfs with a initramfs, and the virtual file system above it.
#[derive(Debug)]
struct Tree {
    root: Arc<RamFs<TestSystem>>,
    vfs: Vfs<TestSystem>,
}

/// A ramfs of 16 pages with the initramfs of an archive that a function fills.
fn unpacked(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Result<Tree, UnpackError> {
    let (root, vfs) = vfs(16 * PAGE_SIZE as u64);
    root.unpack(archive(fill)).map(|()| Tree { root, vfs })
}

#[test]
fn file_that_is_linked_to_itself_stays() {
    // So GNU tar writes a path that it is given twice.
    let initramfs = unpacked(|builder| {
        add(builder, EntryType::Regular, "file", b"contents");
        add_link(builder, EntryType::Link, "file", "file");
        add(builder, EntryType::Regular, "next", b"");
    });
    let initramfs = initramfs.expect("the archive is valid");
    assert_eq!(run(open(&initramfs, "/file").metadata()).expect("it is open").attr.size, 8);
    open(&initramfs, "/next");
}

fn open(initramfs: &Tree, path: &str) -> Arc<OpenFile<TestSystem>> {
    match run(initramfs.vfs.open(path.as_bytes(), O_RDWR, 0)) {
        Ok(OpenedPath::File(file)) => file,
        other => panic!("{path}: {other:?}"),
    }
}

fn attr(initramfs: &Tree, path: &str) -> Result<Attr, Errno> {
    run(initramfs.vfs.metadata(path.as_bytes(), Symlinks::Keep)).map(|metadata| metadata.attr)
}

fn contents(initramfs: &Tree, path: &str) -> Vec<u8> {
    initramfs.root.contents(attr(initramfs, path).expect("a file").ino)
}

/// Pages in use besides the one that names and inodes count for.
fn pages_in_use(initramfs: &Tree) -> u64 {
    let usage = run(initramfs.vfs.usage(b"/")).expect("a directory");
    usage.blocks - usage.free_blocks - 1
}

#[test]
fn tree_has_the_attributes_of_the_archive() {
    let initramfs = unpacked(|builder| {
        add(builder, EntryType::Directory, "./", b"");
        add(builder, EntryType::Directory, "etc", b"");
        add(builder, EntryType::Regular, "etc/host", b"name");
        add(builder, EntryType::Regular, "new/er/file", b"");
        add_link(builder, EntryType::Symlink, "link", "etc/host");
        add_link(builder, EntryType::Link, "again", "./etc/host");
        add(builder, EntryType::Char, "etc/console", b"");
    })
    .unwrap();
    for (path, mode, nlink, size) in [
        ("/", 0o40_604, 4, 80),
        ("/etc", 0o40_604, 2, 20),
        ("/etc/host", 0o100_604, 2, 4),
        ("/again", 0o100_604, 2, 4),
        ("/new/er", 0o40_755, 2, 20),
        ("/link", 0o120_777, 1, 8),
    ] {
        let attr = attr(&initramfs, path).unwrap();
        assert_eq!((attr.mode, attr.nlink, attr.size), (mode, nlink, size), "{path}");
        let archived = Time { seconds: 77, nanoseconds: 0 };
        assert_eq!(attr.mtime == archived, !path.starts_with("/new"), "{path}");
    }
    assert_eq!(attr(&initramfs, "/etc/console"), Err(Errno::ENOENT));
    assert_eq!(run(initramfs.vfs.read_link(b"/link")).unwrap(), b"etc/host");
    assert_eq!(contents(&initramfs, "/etc/host"), b"name");
    assert_eq!(attr(&initramfs, "/again").unwrap().ino, attr(&initramfs, "/etc/host").unwrap().ino);
}

#[test]
fn unused_inodes_of_a_tree_are_freed() {
    let initramfs = unpacked(|builder| add(builder, EntryType::Regular, "a/b", b"text")).unwrap();
    let inodes = |initramfs: &Tree| run(initramfs.vfs.usage(b"/")).unwrap().inodes;
    assert_eq!(inodes(&initramfs), 3);
    run(initramfs.vfs.remove_file(b"/a/b")).unwrap();
    run(initramfs.vfs.remove_directory(b"/a")).unwrap();
    assert_eq!(inodes(&initramfs), 1);
}

#[test]
fn write_copies_one_page() {
    let text = [7; 3 * PAGE_SIZE + 100];
    let initramfs = unpacked(|builder| add(builder, EntryType::Regular, "file", &text)).unwrap();
    let file = open(&initramfs, "/file");
    assert_eq!((contents(&initramfs, "/file") == text, pages_in_use(&initramfs)), (true, 0));
    assert_eq!(attr(&initramfs, "/file").unwrap().blocks, 25);
    let offset = PAGE_SIZE + 5;
    run(file.write_at(offset as u64, b"new")).unwrap();
    let mut expected = text;
    expected[offset..offset + 3].copy_from_slice(b"new");
    assert_eq!((contents(&initramfs, "/file") == expected, pages_in_use(&initramfs)), (true, 1));
    assert_eq!(attr(&initramfs, "/file").unwrap().blocks, 25 + 8);
}

#[test]
fn short_read_shows_the_archive_and_no_zeros_in_its_place() {
    let initramfs = unpacked(|builder| add(builder, EntryType::Regular, "file", b"0123456789")).unwrap();
    let file = open(&initramfs, "/file");
    run(file.set_size(20)).unwrap();
    let mut memory = [MaybeUninit::uninit(); 20];
    run(file.read_at(0, &mut ReadBuffer::new(&mut memory))).unwrap();
    let mut read = |offset, size: usize| Some(file.try_read(offset, &mut memory[..size])?.value);
    assert_eq!((read(2, 8), read(12, 4)), (Some(8), Some(4)));
    assert_eq!(read(5, 10), None, "the bytes do not lie together");
}

#[test]
fn later_entries_replace_earlier_ones_but_no_directories() {
    let twice = |first: EntryType, second: EntryType| {
        unpacked(|builder| {
            add(builder, first, "a", b"");
            add(builder, second, "a", b"");
        })
    };
    let initramfs = twice(EntryType::Regular, EntryType::Directory).unwrap();
    assert_eq!(attr(&initramfs, "/a").unwrap().mode, 0o40_604);
    assert!(twice(EntryType::Directory, EntryType::Directory).is_ok());
    let error = twice(EntryType::Directory, EntryType::Regular).unwrap_err();
    assert_eq!(error.to_string(), "cannot add /a: error number 21");
}

#[test]
fn invalid_trees_are_rejected() {
    let below = |builder: &mut Builder<Vec<u8>>| add(builder, EntryType::Regular, "a/b", b"");
    for (error, fill) in [
        (
            Errno::ENOTDIR,
            &(|builder: &mut Builder<_>| {
                add_link(builder, EntryType::Symlink, "a", "/");
                below(builder);
            }) as &dyn Fn(&mut Builder<Vec<u8>>),
        ),
        (Errno::ENOENT, &|builder| add_link(builder, EntryType::Link, "a", "missing")),
        (Errno::EPERM, &|builder| {
            below(builder);
            add_link(builder, EntryType::Link, "c", "a");
        }),
        (Errno::EISDIR, &|builder| add_link(builder, EntryType::Symlink, ".", "a")),
    ] {
        let found = unpacked(fill).unwrap_err();
        assert!(matches!(found, UnpackError::Entry { error: found, .. } if found == error), "{found}");
    }
    let (root, _) = vfs(0);
    let Err(UnpackError::Archive(error)) = root.unpack(&[1; 512]) else { panic!("unpacked") };
    assert_eq!((error.offset, error.reason), (0, TarReason::Checksum));
}

proptest! {
    #[test]
    fn changes_of_a_file_in_a_tree_are_those_of_a_file_in_memory(
        size in 0_usize..3 * PAGE_SIZE,
        steps in prop::collection::vec((any::<bool>(), 0..4 * PAGE_SIZE, 1_usize..2 * PAGE_SIZE), 1..if cfg!(miri) { 4 } else { 12 }),
    ) {
        let mut model = (1..=251).collect::<Vec<u8>>().repeat(size.div_ceil(251));
        model.truncate(size);
        let initramfs = unpacked(|builder| add(builder, EntryType::Regular, "file", &model)).unwrap();
        let file = open(&initramfs, "/file");
        for (is_write, offset, count) in steps {
            if is_write {
                let bytes = vec![0xee; count];
                prop_assert_eq!(run(file.write_at(offset as u64, &bytes)), Ok(count));
                model.resize(model.len().max(offset + count), 0);
                model[offset..offset + count].copy_from_slice(&bytes);
            } else {
                run(file.set_size(offset as u64)).unwrap();
                model.resize(offset, 0);
            }
            prop_assert!(contents(&initramfs, "/file") == model);
        }
    }
}
