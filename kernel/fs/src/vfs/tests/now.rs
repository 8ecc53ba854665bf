//! Reads, writes and seeks of open files that need no waiting, by handles as descriptors have them.

use core::mem::MaybeUninit;
use std::thread;
use std::vec;
use std::vec::Vec;

use hermit_abi::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::Errno;
use hermit_io::{FileHandle, ReadBuffer};
use proptest::prelude::*;
use proptest::sample::select;

use crate::testing::{TICK, TestSystem, run, vfs};
use crate::{OpenFile, OpenedPath, Vfs, Whence};

type File = FileHandle<OpenFile<TestSystem>>;

/// Size of the largest read in bytes.
const MAX_READ: usize = 10_000;

fn open(vfs: &Vfs<TestSystem>, path: &str, flags: i32) -> File {
    match run(vfs.open(path.as_bytes(), flags | O_CREAT, 0o666)) {
        Ok(OpenedPath::File(file)) => FileHandle::new(file),
        other => panic!("{other:?} is no file"),
    }
}

/// The last offset of a file, in bytes.
const LAST: u64 = i64::MAX.cast_unsigned();

/// A call of an open file.
#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    ReadAt(u64, usize),
    Write(u8, usize),
    WriteAt(u64, u8, usize),
    Seek(i64, Whence),
}

/// `read` on the short path.
fn read_now(handle: &File, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
    handle.with_position(|file, position| {
        let count = file.read_at_now(position, buffer)?;
        Some((count, position + count as u64))
    })
}

/// `write` on the short path.
fn write_now(handle: &File, bytes: &[u8]) -> Option<usize> {
    handle.with_position(|file, position| Some((bytes.len(), file.write_at_now(position, bytes)?)))
}

const fn to_abi(whence: Whence) -> i32 {
    match whence {
        Whence::Start => SEEK_SET,
        Whence::Current => SEEK_CUR,
        Whence::End => SEEK_END,
    }
}

/// Makes a call on the short path; `None` if it is none for that.
fn call_now(handle: &File, step: &Step) -> Option<u64> {
    let mut memory = [MaybeUninit::uninit(); MAX_READ];
    let count = |count: usize| count as u64;
    match *step {
        Step::Read(0) | Step::ReadAt(_, 0) | Step::Write(_, 0) | Step::WriteAt(_, _, 0) => None,
        Step::Read(size) => read_now(handle, &mut memory[..size]).map(count),
        Step::ReadAt(offset, size) => handle.file().read_at_now(offset, &mut memory[..size]).map(count),
        Step::Write(byte, size) => write_now(handle, &vec![byte; size]).map(count),
        Step::WriteAt(offset, byte, size) => {
            handle.file().write_at_now(offset, &vec![byte; size]).map(|_| size as u64)
        }
        Step::Seek(offset, whence) => handle.seek(offset, to_abi(whence)),
    }
}

/// Makes a call on the long path, with a reference as it has; returns the number of bytes or the position.
fn call_long(handle: &File, step: &Step) -> Result<u64, Errno> {
    let file = handle.clone().into_file();
    let mut memory = [MaybeUninit::uninit(); MAX_READ];
    let count = |count: usize| count as u64;
    match *step {
        Step::Read(size) => {
            let mut buffer = ReadBuffer::new(&mut memory[..size]);
            run(file.read(&mut buffer)).map(|()| count(buffer.len()))
        }
        Step::ReadAt(offset, size) => {
            let mut buffer = ReadBuffer::new(&mut memory[..size]);
            run(file.read_at(offset, &mut buffer)).map(|()| count(buffer.len()))
        }
        Step::Write(byte, size) => run(file.write(&vec![byte; size])).map(count),
        Step::WriteAt(offset, byte, size) => run(file.write_at(offset, &vec![byte; size])).map(count),
        Step::Seek(offset, whence) => run(file.seek(offset, whence)),
    }
}

/// Makes a call, first on the short path if `is_short`.
fn call(handle: &File, is_short: bool, step: &Step) -> Result<u64, Errno> {
    let now = if is_short { call_now(handle, step) } else { None };
    now.map_or_else(|| call_long(handle, step), Ok)
}

fn step() -> impl Strategy<Value = Step> {
    let size = || select(&[0, 1, 10, 4095, 4096, 4097, MAX_READ][..]);
    let offset = || select(&[0, 1, 4000, 4095, 4096, 8191, 20_000, LAST][..]);
    let whence = select(&[Whence::Start, Whence::Current, Whence::End][..]);
    let distance = select(&[0, 1, -1, -5000, 4095, 20_000, i64::MAX][..]);
    prop_oneof![
        size().prop_map(Step::Read),
        (offset(), size()).prop_map(|(offset, size)| Step::ReadAt(offset, size)),
        (any::<u8>(), size()).prop_map(|(byte, size)| Step::Write(byte, size)),
        (offset(), any::<u8>(), size()).prop_map(|(offset, byte, size)| Step::WriteAt(offset, byte, size)),
        (distance, whence).prop_map(|(offset, whence)| Step::Seek(offset, whence)),
    ]
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn short_path_does_what_the_long_one_does(
        flags in select(&[O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_APPEND][..]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (ramfs, vfs) = vfs(64 << 12);
        let (short, long) = (open(&vfs, "/short", flags), open(&vfs, "/long", flags));
        for step in &steps {
            prop_assert_eq!(call(&short, true, step), call(&long, false, step), "{:?}", step);
        }
        let position = |file: &File| call_long(file, &Step::Seek(0, Whence::Current));
        prop_assert_eq!(position(&short), position(&long));
        let contents = |file: &File| {
            let attr = run(file.file().metadata()).unwrap().attr;
            // A sparse file may be larger than memory.
            (attr.size, if attr.size < 1 << 20 { ramfs.contents(attr.ino) } else { Vec::new() })
        };
        prop_assert_eq!(contents(&short), contents(&long));
    }
}

#[test]
fn short_path_serves_pages_that_exist_to_a_sole_reference() {
    let (_, vfs) = vfs(1 << 20);
    let file = open(&vfs, "/file", O_RDWR);
    let mut memory = [MaybeUninit::uninit(); 4];
    assert_eq!(write_now(&file, b"page"), None, "there is no page");
    assert_eq!(call_long(&file, &Step::Write(b'p', 4)), Ok(4));
    assert_eq!(write_now(&file, b"more"), Some(4));
    let reference = file.clone();
    assert_eq!(write_now(&file, b"more"), None, "the position is shared");
    drop(reference);
    assert_eq!(file.seek(0, SEEK_SET), Some(0));
    assert_eq!(read_now(&file, &mut memory), None, "the first read changes a time");
    assert_eq!(call_long(&file, &Step::Read(4)), Ok(4));
    let reference = file.clone();
    assert_eq!(read_now(&file, &mut memory), None);
    drop(reference);
    assert_eq!(read_now(&file, &mut memory), Some(4));
    assert_eq!(read_now(&file, &mut memory), Some(0), "the end of the file");
}

#[test]
fn short_path_copies_each_number_of_bytes() {
    let (ramfs, vfs) = vfs(1 << 20);
    let handle = open(&vfs, "/file", O_RDWR);
    let file = handle.file();
    run(file.write_at(0, &[0; 100])).unwrap();
    let ino = run(file.metadata()).unwrap().attr.ino;
    for size in 1..=20_u8 {
        let bytes: Vec<u8> = (size..2 * size).collect();
        let (offset, end) = (usize::from(size), usize::from(2 * size));
        let before = ramfs.contents(ino);
        assert_eq!(file.write_at_now(size.into(), &bytes), Some(end as u64));
        let after = ramfs.contents(ino);
        assert_eq!(after[offset..end], bytes);
        assert_eq!((&after[..offset], &after[end..]), (&before[..offset], &before[end..]));
    }
}

#[test]
fn write_of_nothing_behind_the_end_leaves_the_size() {
    let (_, vfs) = vfs(1 << 20);
    let file = open(&vfs, "/file", O_RDWR);
    run(file.file().write(b"abc")).unwrap();
    assert_eq!(call(&file, true, &Step::WriteAt(10, 0, 0)), Ok(0));
    assert_eq!(run(file.file().metadata()).unwrap().attr.size, 3);
}

#[test]
fn writes_of_another_tick_or_behind_a_read_have_a_later_time() {
    let (_, vfs) = vfs(1 << 20);
    let file = open(&vfs, "/file", O_RDWR);
    let time = || run(file.file().metadata()).unwrap().attr.mtime;
    run(file.file().write(b"page")).unwrap();
    let first = time();
    assert_eq!(file.file().write_at_now(0, b"x"), Some(1));
    assert_eq!(time(), first);
    run(file.file().read_at(0, &mut ReadBuffer::new(&mut [MaybeUninit::uninit(); 1]))).unwrap();
    assert_eq!(file.file().write_at_now(0, b"x"), None);
    run(file.file().write_at(0, b"x")).unwrap();
    let second = time();
    assert!(second > first, "{second:?}");
    TICK.set(TICK.get() + 1);
    assert_eq!(file.file().write_at_now(0, b"x"), None);
}

#[test]
fn appends_of_two_openings_never_overlap() {
    const COUNT: usize = 300;
    const SIZE: usize = 5;
    let (ramfs, vfs) = vfs(1 << 20);
    let append = |byte: u8| {
        let file = open(&vfs, "/file", O_WRONLY | O_APPEND);
        for _ in 0..COUNT {
            assert_eq!(call(&file, true, &Step::Write(byte, SIZE)), Ok(SIZE as u64));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| append(b'a'));
        scope.spawn(|| append(b'b'));
    });
    let file = open(&vfs, "/file", O_RDONLY);
    let contents = ramfs.contents(run(file.file().metadata()).unwrap().attr.ino);
    assert_eq!(contents.len(), 2 * COUNT * SIZE);
    let is_whole = |record: &[u8]| record.iter().all(|byte| *byte == record[0]);
    // A write of several pages would be one record, too: these end where the next begins.
    assert!(contents.chunks(SIZE).all(is_whole));
}
