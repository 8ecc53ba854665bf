//! Tests of the fast paths of reads, writes and seeks, with handles as in descriptors.

use core::mem::MaybeUninit;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::thread;
use std::vec;
use std::vec::Vec;

use hermit_abi::{O_APPEND, O_RDONLY, O_RDWR, O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::Errno;
use hermit_io::{Object as _, ReadBuffer};
use proptest::prelude::*;
use proptest::sample::select;

use super::descriptor::{File, open};
use crate::interface::SetAttr;
use crate::testing::{TICK, run, vfs};
use crate::vfs::Whence;

/// Size of the largest read in bytes.
const MAX_READ: usize = 10_000;

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

const fn to_abi(whence: Whence) -> i32 {
    match whence {
        Whence::Start => SEEK_SET,
        Whence::Current => SEEK_CUR,
        Whence::End => SEEK_END,
    }
}

/// Makes a call on the fast path. Returns `None` if the fast path cannot serve the call.
fn try_call(file: &File, step: &Step) -> Option<u64> {
    let mut memory = [MaybeUninit::uninit(); MAX_READ];
    let count = |count: usize| count as u64;
    match *step {
        Step::Read(0) | Step::ReadAt(_, 0) | Step::Write(_, 0) | Step::WriteAt(_, _, 0) => None,
        Step::Read(size) => file.read(&mut memory[..size]).map(count),
        Step::ReadAt(offset, size) => file.read_at(offset, &mut memory[..size]).map(count),
        Step::Write(byte, size) => file.write(&vec![byte; size]).map(count),
        Step::WriteAt(offset, byte, size) => file.write_at(offset, &vec![byte; size]).map(count),
        Step::Seek(offset, whence) => file.seek(offset, to_abi(whence)),
    }
}

/// Makes a call on the slow path, with a second reference as in the kernel. Returns the number of bytes or
/// the position.
fn call_slow(file: &File, step: &Step) -> Result<u64, Errno> {
    let file = file.file();
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

/// Makes a call. If `is_short`, tries the fast path first.
fn call(file: &File, is_short: bool, step: &Step) -> Result<u64, Errno> {
    let now = if is_short { try_call(file, step) } else { None };
    now.map_or_else(|| call_slow(file, step), Ok)
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
        let position = |file: &File| call_slow(file, &Step::Seek(0, Whence::Current));
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
    assert_eq!(file.write(b"page"), None, "there is no page");
    assert_eq!(call_slow(&file, &Step::Write(b'p', 4)), Ok(4));
    assert_eq!(file.write(b"more"), Some(4));
    let reference = file.file();
    assert_eq!(file.write(b"more"), None, "the position is shared");
    drop(reference);
    assert_eq!(file.seek(0, SEEK_SET), Some(0));
    assert_eq!(file.read(&mut memory), None, "the first read changes a time");
    assert_eq!(call_slow(&file, &Step::Read(4)), Ok(4));
    let reference = file.file();
    assert_eq!(file.read(&mut memory), None);
    drop(reference);
    assert_eq!(file.read(&mut memory), Some(4));
    assert_eq!(file.read(&mut memory), Some(0), "the end of the file");
}

#[test]
fn short_path_copies_each_number_of_bytes() {
    let (ramfs, vfs) = vfs(1 << 20);
    let handle = open(&vfs, "/file", O_RDWR);
    run(handle.file().write_at(0, &[0; 100])).unwrap();
    let ino = run(handle.file().metadata()).unwrap().attr.ino;
    assert!(use_directly(&handle));
    for size in 1..=20_u8 {
        let bytes: Vec<u8> = (size..2 * size).collect();
        let (offset, end) = (usize::from(size), usize::from(2 * size));
        let before = ramfs.contents(ino);
        for _ in 0..4 {
            assert_eq!(handle.seek(size.into(), SEEK_SET), Some(size.into()));
            assert_eq!(call(&handle, true, &Step::Write(bytes[0], 1)), Ok(1));
            assert_eq!(handle.seek(size.into(), SEEK_SET), Some(size.into()));
        }
        assert_eq!(handle.write(&bytes), Some(size.into()));
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
    assert_eq!(file.write_at(0, b"x"), Some(1));
    assert_eq!(time(), first);
    run(file.file().read_at(0, &mut ReadBuffer::new(&mut [MaybeUninit::uninit(); 1]))).unwrap();
    assert_eq!(file.write_at(0, b"x"), None);
    run(file.file().write_at(0, b"x")).unwrap();
    let second = time();
    assert!(second > first, "{second:?}");
    TICK.set(TICK.get() + 1);
    assert_eq!(file.write_at(0, b"x"), None);
}

#[test]
fn appends_of_two_openings_never_overlap() {
    const COUNT: usize = if cfg!(miri) { 20 } else { 300 };
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

/// Returns true if the descriptor can read the byte at the position directly.
fn is_direct(file: &File) -> bool {
    file.read_byte().is_some() && file.seek(-1, SEEK_CUR).is_some()
}

/// Reads the first byte until the descriptor can read it directly, at most as often as that takes.
fn use_directly(file: &File) -> bool {
    for _ in 0..2 {
        assert_eq!(call(file, true, &Step::Seek(0, Whence::Start)), Ok(0));
        assert_eq!(call(file, true, &Step::Read(1)), Ok(1));
    }
    assert_eq!(call(file, true, &Step::Seek(0, Whence::Start)), Ok(0));
    is_direct(file)
}

#[test]
fn page_is_not_used_directly_after_a_change_of_the_file_or_its_times() {
    let (ramfs, vfs) = vfs(1 << 20);
    let (file, other) = (open(&vfs, "/file", O_RDWR), open(&vfs, "/file", O_RDWR));
    let other = other.file();
    run(other.write_at(0, &[1; 5000])).unwrap();
    assert!(use_directly(&file));
    run(other.metadata()).unwrap();
    assert!(is_direct(&file), "it needs nothing of the contents");
    run(other.write_at(0, &[2; 3])).unwrap();
    assert!(!is_direct(&file));
    assert!(use_directly(&file));
    run(other.set_attributes(&SetAttr { permissions: Some(0o600), ..SetAttr::default() })).unwrap();
    assert!(!is_direct(&file));
    assert!(use_directly(&file));
    run(vfs.create_link(b"/file", b"/link")).unwrap();
    assert!(!is_direct(&file), "the next read changes a time");
    assert!(use_directly(&file));
    run(other.set_size(1)).unwrap();
    assert!(!is_direct(&file));
    assert!(use_directly(&file));
    assert_eq!(call(&file, true, &Step::Read(2)), Ok(1), "a read ends with the file");
    assert_eq!(ramfs.contents(run(other.metadata()).unwrap().attr.ino), [2]);
}

#[test]
fn byte_written_directly_is_seen_by_others_until_the_tick_changes() {
    let (ramfs, vfs) = vfs(1 << 20);
    let free = || run(vfs.usage(b"/")).unwrap().free_blocks;
    let before = free();
    let (file, reader) = (open(&vfs, "/file", O_RDWR), open(&vfs, "/file", O_RDONLY));
    let write = |file: &File, byte| {
        assert_eq!(call(file, true, &Step::Seek(0, Whence::Start)), Ok(0));
        assert_eq!(call(file, true, &Step::Write(byte, 1)), Ok(1));
    };
    (0..6).for_each(|byte| write(&file, byte));
    let writes_directly = |file: &File, byte| {
        assert_eq!(call(file, true, &Step::Seek(0, Whence::Start)), Ok(0));
        file.write_byte(byte).is_some()
    };
    assert!(writes_directly(&file, 7));
    assert_eq!(call_slow(&reader, &Step::ReadAt(0, 2)), Ok(1));
    assert_eq!(ramfs.contents(run(reader.file().metadata()).unwrap().attr.ino), [7]);
    assert!(!writes_directly(&file, 8), "a write behind a read has a later time");
    (0..6).for_each(|byte| write(&file, byte));
    assert!(writes_directly(&file, 9));
    TICK.set(TICK.get() + 1);
    assert!(!writes_directly(&file, 10));
    (0..6).for_each(|byte| write(&file, byte));
    assert!(writes_directly(&file, 11));
    file.file().set_status_flags(O_APPEND).unwrap();
    (0..6).for_each(|byte| write(&file, byte));
    assert!(!writes_directly(&file, 12), "appending takes the size of the file");
    run(vfs.remove_file(b"/file")).unwrap();
    drop((file, reader));
    assert_eq!(free(), before);
}

#[test]
fn writers_of_one_page_lose_no_byte_while_it_is_used_directly() {
    const COUNT: u8 = if cfg!(miri) { 20 } else { 250 };
    let (ramfs, vfs) = vfs(1 << 20);
    run(open(&vfs, "/file", O_RDWR).file().write_at(0, &[0; 512])).unwrap();
    let write = |start: u64| {
        let file = open(&vfs, "/file", O_RDWR);
        for offset in 0..u64::from(COUNT) {
            assert_eq!(
                call(&file, true, &Step::Seek((start + offset).cast_signed(), Whence::Start)),
                Ok(start + offset)
            );
            // The call is repeated until the page is used directly.
            for byte in 1..=5 {
                assert_eq!(call(&file, true, &Step::Write(byte, 1)), Ok(1));
                assert_eq!(call(&file, true, &Step::Seek(-1, Whence::Current)), Ok(start + offset));
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| write(0));
        scope.spawn(|| write(256));
        scope.spawn(|| {
            let file = open(&vfs, "/file", O_RDWR);
            for size in 0..u64::from(COUNT) {
                run(file.file().set_size(600 + size)).unwrap();
            }
        });
    });
    let file = open(&vfs, "/file", O_RDONLY);
    let contents = ramfs.contents(run(file.file().metadata()).unwrap().attr.ino);
    let count = usize::from(COUNT);
    assert!(contents[..count].iter().chain(&contents[256..256 + count]).all(|byte| *byte == 5));
}

/// Writes a byte through a descriptor that other threads use, too. As the kernel does, tries the fast path
/// first, and then the slow path with a reference and without the lock of the descriptor.
fn write_shared(file: &File, byte: u8) {
    if file.write_byte(byte).is_none() && file.write(&[byte]).is_none() {
        let reference = file.file();
        let mut context = Context::from_waker(Waker::noop());
        let bytes = [byte];
        let mut write = pin!(reference.write(&bytes));
        // Another thread may have taken the position.
        let written = loop {
            match write.as_mut().poll(&mut context) {
                Poll::Ready(written) => break written,
                Poll::Pending => thread::yield_now(),
            }
        };
        assert_eq!(written, Ok(1));
    }
}

#[test]
fn threads_that_write_by_one_descriptor_use_each_position_once() {
    const COUNT: usize = if cfg!(miri) { 50 } else { 20_000 };
    let (ramfs, vfs) = vfs(1 << 20);
    let file = open(&vfs, "/file", O_RDWR);
    run(file.file().set_size(3 * COUNT as u64)).unwrap();
    let write = |byte| (0..COUNT).for_each(|_| write_shared(&file, byte));
    thread::scope(|scope| {
        scope.spawn(|| write(1));
        scope.spawn(|| write(2));
        scope.spawn(|| write(3));
        // Calls that take the page back, and calls that take the position.
        scope.spawn(|| {
            let other = open(&vfs, "/file", O_RDONLY);
            for _ in 0..COUNT / 10 {
                run(other.file().read_at(0, &mut ReadBuffer::new(&mut [MaybeUninit::uninit(); 1]))).unwrap();
                drop(file.file());
            }
        });
    });
    let contents = ramfs.contents(run(file.file().metadata()).unwrap().attr.ino);
    assert_eq!(contents.len(), 3 * COUNT);
    for byte in 1..=3 {
        assert_eq!(contents.iter().filter(|written| **written == byte).count(), COUNT, "{byte}");
    }
}
