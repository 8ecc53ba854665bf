//! Tests of the requests that calls make.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use hermit_abi::{O_CREAT, O_RDONLY, O_RDWR};
use hermit_fs::{OpenFile, OpenedPath, PAGE_SIZE, Vfs};
use hermit_fuse::flags::{InitFlags, OpenReply, SetattrValid};
use hermit_fuse::reply::{InitOut, OpenOut, WriteOut};
use hermit_fuse::request::{FlushIn, ReadIn, SetattrIn, WriteIn};
use hermit_fuse::{InHeader, Opcode};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use parking_lot::Mutex;
use zerocopy::{FromBytes, IntoBytes};

use super::server::{Files, reply, serve};
use super::system::{MONOTONIC, RAMFS_SIZE, TestSystem, mounted, ramfs, run};
use super::transport::ModelTransport;

use crate::{FuseClient, Transport as _};

/// Maximum size in bytes of requests that read ahead.
const MAX_AHEAD: usize = 512 << 10;

/// Size in bytes of the file, in writes of 1000 bytes.
const SIZE: usize = 20_000;

pub(super) type Messages = Arc<Mutex<Vec<Vec<u8>>>>;

/// Creates a virtual file system on a server, with the transport and a record of the messages that the server
/// gets. `answer` replies in place of the server, unless it returns `None`.
pub(super) fn recorded(
    answer: impl FnMut(&InHeader, &[u8]) -> Option<Result<Vec<u8>, i32>> + Send + 'static,
) -> (Vfs<TestSystem>, ModelTransport, Messages) {
    recorded_by(|transport| transport, answer)
}

/// Does [`recorded`] with a changed transport.
fn recorded_by(
    change: impl FnOnce(ModelTransport) -> ModelTransport,
    answer: impl FnMut(&InHeader, &[u8]) -> Option<Result<Vec<u8>, i32>> + Send + 'static,
) -> (Vfs<TestSystem>, ModelTransport, Messages) {
    recorded_with(&Files::new(ramfs()), change, answer)
}

/// Does [`recorded`] for a server with the given files, which replies to all messages itself.
pub(super) fn recorded_files(files: &Arc<Files>) -> (Vfs<TestSystem>, ModelTransport, Messages) {
    recorded_with(files, |transport| transport, |_, _| None)
}

fn recorded_with(
    files: &Arc<Files>,
    change: impl FnOnce(ModelTransport) -> ModelTransport,
    mut answer: impl FnMut(&InHeader, &[u8]) -> Option<Result<Vec<u8>, i32>> + Send + 'static,
) -> (Vfs<TestSystem>, ModelTransport, Messages) {
    let messages = Messages::default();
    let (copy, mut serve) = (Arc::clone(&messages), serve(files));
    let transport = change(ModelTransport::new(move |message| {
        copy.lock().push(message.to_vec());
        let (header, body) = InHeader::read_from_prefix(message).expect("a header");
        answer(&header, body).map(|result| reply(header.unique, result)).or_else(|| serve(message))
    }));
    let client = run(FuseClient::connect(transport.clone())).expect("a connection");
    (mounted(Arc::new(client)), transport, messages)
}

/// Returns the structures of the messages of a kind, and removes these messages from the record.
pub(super) fn taken<T: FromBytes>(messages: &Messages, opcode: Opcode) -> Vec<T> {
    let messages = core::mem::take(&mut *messages.lock());
    let parsed = messages.iter().map(|message| InHeader::read_from_prefix(message).expect("a header"));
    let bodies = parsed.filter(|(header, _)| header.opcode == opcode.number());
    bodies.map(|(_, body)| T::read_from_prefix(body).expect("a structure").0).collect()
}

pub(super) fn open(vfs: &Vfs<TestSystem>, path: &str, flags: i32) -> Arc<OpenFile<TestSystem>> {
    match run(vfs.open(path.as_bytes(), flags, 0o640)) {
        Ok(OpenedPath::File(file)) => file,
        other => panic!("{other:?}"),
    }
}

/// Opens a file of [`SIZE`] bytes.
pub(super) fn file(vfs: &Vfs<TestSystem>) -> Arc<OpenFile<TestSystem>> {
    let file = open(vfs, "/m/file", O_RDWR | O_CREAT);
    for _ in 0..SIZE / 1000 {
        assert_eq!(run(file.write(&[7; 1000])), Ok(1000));
    }
    file
}

/// Reads at an offset; returns the number of bytes.
pub(super) fn read(file: &OpenFile<TestSystem>, offset: u64, size: usize) -> usize {
    let mut memory = vec![MaybeUninit::uninit(); size];
    let mut buffer = ReadBuffer::new(&mut memory);
    run(file.read_at(offset, &mut buffer)).expect("a read");
    buffer.len()
}

/// Reads the file in pieces. All pieces except the last one have the full size.
fn read_pieces(file: &OpenFile<TestSystem>, size: usize) {
    for offset in (0..SIZE).step_by(size) {
        assert_eq!(read(file, offset as u64, size), size.min(SIZE - offset), "{size} bytes at {offset}");
    }
    assert_eq!(read(file, SIZE as u64, size), 0);
}

#[test]
fn reads_across_the_end_of_what_was_read_ahead_are_complete() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = file(&vfs);
    // Larger pieces may be short, because the transport sometimes has no memory for them.
    let sizes: &[usize] = if cfg!(miri) { &[199, 1000] } else { &[7, 99, 300, 1000, 4096, 5000] };
    for &size in sizes {
        messages.lock().clear();
        read_pieces(&file, size);
        let reads: Vec<ReadIn> = taken(&messages, Opcode::Read);
        assert!(reads.len() <= 10, "{size}: {reads:?}");
    }
}

#[test]
fn small_reads_one_after_the_other_are_few_requests() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = file(&vfs);
    messages.lock().clear();
    read_pieces(&file, 100);
    let reads: Vec<ReadIn> = taken(&messages, Opcode::Read);
    // The first page, pieces of the transport's maximum, and the end.
    assert!(reads.len() <= 10, "{reads:?}");
    assert!(reads[0].size as usize <= PAGE_SIZE);
    // The end of the file may have moved, so it is asked for. Bytes before it are cached, in any order.
    assert_eq!(
        (read(&file, SIZE as u64 - 10, 20), !taken::<ReadIn>(&messages, Opcode::Read).is_empty()),
        (10, true)
    );
    for (offset, size) in [(5000, 10), (3000, 10), (15_000, 10), (0, 5000)] {
        assert_eq!(read(&file, offset, size), size);
    }
    assert!(taken::<ReadIn>(&messages, Opcode::Read).is_empty());
}

#[test]
fn reads_in_another_order_and_large_reads_do_not_read_ahead() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = file(&vfs);
    for (offset, size, max) in
        [(15_000, 10, PAGE_SIZE), (9000, 10, PAGE_SIZE), (100, 10, PAGE_SIZE), (9000, MAX_AHEAD, MAX_AHEAD)]
    {
        read(&file, offset, size);
        let reads: Vec<ReadIn> = taken(&messages, Opcode::Read);
        assert!(reads.iter().all(|read| read.size as usize <= max), "{reads:?}");
        assert!(!reads.is_empty());
    }
}

/// Size in bytes of the largest requests that existing servers accept.
const LARGE: usize = 1 << 20;

/// A server and a transport whose requests have up to [`LARGE`] bytes. The server's files have no end, and it
/// does not store their contents.
fn large() -> (Vfs<TestSystem>, ModelTransport, Messages) {
    let init = InitOut {
        major: 7,
        minor: 31,
        flags: InitFlags::MAX_PAGES.bits(),
        max_write: 1 << 20,
        max_pages: 256,
        ..InitOut::default()
    };
    recorded_by(
        |transport| transport.with_max_data(LARGE),
        move |header, body| match Opcode::from_number(header.opcode) {
            Some(Opcode::Init) => Some(Ok(init.as_bytes().to_vec())),
            Some(Opcode::Read) => {
                Some(Ok(vec![7; ReadIn::read_from_prefix(body).expect("a read").0.size as usize]))
            }
            Some(Opcode::Write) => {
                let size = WriteIn::read_from_prefix(body).expect("a write").0.size;
                Some(Ok(WriteOut { size, padding: 0 }.as_bytes().to_vec()))
            }
            _ => None,
        },
    )
}

#[test]
fn mebibyte_is_one_request() {
    let (vfs, _, messages) = large();
    let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
    let block = vec![7; LARGE];
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        messages.lock().clear();
        assert_eq!(read(&file, 0, 2 * LARGE), LARGE);
        reads.extend(taken::<ReadIn>(&messages, Opcode::Read).iter().map(|read| read.size as usize));
        assert_eq!(run(file.write_at(0, &block)), Ok(LARGE));
        writes.extend(taken::<WriteIn>(&messages, Opcode::Write).iter().map(|write| write.size as usize));
    }
    assert_eq!((reads, writes), (vec![LARGE; 2], vec![LARGE; 2]));
}

#[test]
fn sequence_of_reads_asks_for_more_and_more() {
    let (vfs, _, messages) = large();
    let file = open(&vfs, "/m/file", O_RDONLY | O_CREAT);
    let sizes_of_reads = |start: usize, size: usize, end: usize| {
        messages.lock().clear();
        (start..end).step_by(size).for_each(|offset| assert_eq!(read(&file, offset as u64, size), size));
        let reads: Vec<ReadIn> = taken(&messages, Opcode::Read);
        reads.iter().map(|read| read.size as usize).collect::<Vec<_>>()
    };
    let piece = 32 << 10;
    let sizes = sizes_of_reads(0, piece, 4 * MAX_AHEAD);
    assert_eq!(sizes[..5], [piece, 128 << 10, 256 << 10, MAX_AHEAD, MAX_AHEAD]);
    // Another sequence begins with less.
    let sizes = sizes_of_reads(9 * MAX_AHEAD, piece, 9 * MAX_AHEAD + 2 * piece);
    assert_eq!(sizes, [piece, 128 << 10]);
}

/// Does [`recorded_files`] with a transport that always has memory.
fn with_memory(files: &Arc<Files>) -> (Vfs<TestSystem>, ModelTransport, Messages) {
    recorded_with(files, |transport| transport.with_max_data(LARGE), |_, _| None)
}

/// Reads two pieces. The second one needs no request.
fn read_two(file: &OpenFile<TestSystem>, messages: &Messages) {
    assert_eq!(read(file, 0, 100), 100);
    assert!(requests_of(messages, || assert_eq!(read(file, 200, 50), 50)) == 0);
}

/// Returns the number of read requests that an action makes.
fn requests_of(messages: &Messages, action: impl FnOnce()) -> usize {
    messages.lock().clear();
    action();
    taken::<ReadIn>(messages, Opcode::Read).len()
}

#[test]
fn cached_data_are_dropped_after_changes_and_in_time() {
    let (vfs, _, messages) = with_memory(&Files::new(ramfs()));
    let (file, other) = (file(&vfs), open(&vfs, "/m/file", O_RDWR));
    read_two(&file, &messages);
    run(other.write_at(300, b"text")).expect("a write");
    // Bytes before the write stay cached.
    read_two(&file, &messages);
    assert_eq!(requests_of(&messages, || assert_eq!(read(&file, 250, 100), 100)), 1);
    run(other.set_size(250)).expect("a size");
    read_two(&file, &messages);
    assert_eq!((read(&file, 200, 100), read(&file, 250, 100)), (50, 0));
    run(other.set_size(1000)).expect("a size");
    assert_eq!(read(&file, 200, 100), 100);
    read_two(&file, &messages);
    MONOTONIC.set(MONOTONIC.get() + 1_000_000_000);
    assert_eq!(requests_of(&messages, || assert_eq!(read(&file, 200, 50), 50)), 1);
}

#[test]
fn cached_data_are_not_used_after_the_file_was_opened_again() {
    let files = Files::with_validity(ramfs(), 1_000_000_000);
    let (vfs, _, messages) = with_memory(&files);
    let file = file(&vfs);
    for flags in [O_RDWR, O_RDONLY, O_RDONLY] {
        read_two(&file, &messages);
        let other = open(&vfs, "/m/file", flags);
        assert_eq!(requests_of(&messages, || assert_eq!(read(&file, 0, 100), 100)), 1);
        assert_eq!(requests_of(&messages, || assert_eq!(read(&other, 0, 100), 100)), 0);
    }
    // The last opening frees the data.
    drop(file);
    let file = open(&vfs, "/m/file", O_RDONLY);
    assert_eq!(requests_of(&messages, || assert_eq!(read(&file, 0, 100), 100)), 1);
}

/// Writes to a file and flushes it. Returns the results, and the number of `Flush` messages.
fn flushes(errors: [i32; 3]) -> ([Result<(), Errno>; 3], usize) {
    let mut errors = errors.into_iter();
    let (vfs, _, messages) = recorded(move |header, _| {
        (header.opcode == Opcode::Flush.number()).then(|| match errors.next() {
            Some(0) | None => Ok(Vec::new()),
            Some(error) => Err(error),
        })
    });
    let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
    assert_eq!(run(file.flush()), Ok(()));
    assert!(taken::<FlushIn>(&messages, Opcode::Flush).is_empty(), "nothing was written");
    let results = [(); 3].map(|()| {
        assert_eq!(run(file.write(b"text")), Ok(4));
        let result = run(file.flush());
        // The error is reported once.
        assert_eq!(run(file.flush()), Ok(()));
        result
    });
    let requests: Vec<FlushIn> = taken(&messages, Opcode::Flush);
    assert!(requests.iter().all(|request| request.fh != 0), "{requests:?}");
    (results, requests.len())
}

#[test]
fn flush_reports_errors_of_writes() {
    let [ok, io, no_space] = [Ok(()), Err(Errno::EIO), Err(Errno::ENOSPC)];
    assert_eq!(flushes([28, 0, 5]), ([no_space, ok, io], 3));
    // Servers that do not know the request are not asked again.
    assert_eq!(flushes([38, 5, 5]), ([ok; 3], 1));
}

#[test]
fn space_of_removed_files_can_be_used_at_once() {
    let (vfs, transport, _) = recorded(|_, _| None);
    for round in 0..if cfg!(miri) { 2 } else { 3 } {
        let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
        let mut size = 0;
        let error = loop {
            match run(file.write(&[7; 5000])) {
                Ok(count) => size += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error, Errno::ENOSPC);
        assert!(size > RAMFS_SIZE / 4 * 3, "{size} bytes in round {round}");
        // The server handles the last messages about the file only when a call waits for this.
        transport.be_late();
        run(vfs.remove_file(b"/m/file")).expect("a file");
    }
}

#[test]
fn calls_without_space_are_made_once_more() {
    for error in [Errno::ENOSPC, Errno::EDQUOT] {
        let mut left = 3;
        let (vfs, _, messages) = recorded(move |header, _| {
            (header.opcode == Opcode::Write.number() && left > 0).then(|| {
                left -= 1;
                Err(error.number())
            })
        });
        let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
        assert_eq!(run(file.write(b"text")), Err(error));
        assert_eq!(run(file.write(b"text")), Ok(4));
        assert_eq!(taken::<WriteIn>(&messages, Opcode::Write).len(), 4);
    }
}

#[test]
fn opening_is_tried_again_when_cached_names_and_closed_files_have_freed_descriptors() {
    for (opcode, flags) in [(Opcode::Open, O_RDWR), (Opcode::Create, O_RDWR | O_CREAT)] {
        for error in [Errno::ENFILE, Errno::EMFILE] {
            let mut left = 0;
            let (vfs, _, messages) = recorded(move |header, _| {
                let is_it = header.opcode == opcode.number();
                // All but one of the four tries.
                left += u32::from(is_it);
                (is_it && left <= 3).then_some(Err(error.number()))
            });
            if opcode == Opcode::Open {
                drop(open(&vfs, "/m/file", O_RDWR | O_CREAT));
            }
            drop(open(&vfs, "/m/file", flags));
            assert_eq!(kinds(&messages, opcode), 4, "{opcode:?} {error}");
        }
    }
}

/// Number of messages of a kind.
fn kinds(messages: &Messages, opcode: Opcode) -> usize {
    taken::<[u8; 0]>(messages, opcode).len()
}

#[test]
fn file_of_which_there_is_nothing_to_report_is_not_flushed() {
    for (open_flags, count) in [(OpenReply::empty(), 1), (OpenReply::NOFLUSH, 0)] {
        let (vfs, _, messages) = recorded(move |header, _| {
            let opened = OpenOut { fh: header.nodeid, open_flags: open_flags.bits(), padding: 0 };
            (header.opcode == Opcode::Open.number()).then(|| Ok(opened.as_bytes().to_vec()))
        });
        drop(open(&vfs, "/m/file", O_RDWR | O_CREAT));
        let file = open(&vfs, "/m/file", O_RDWR);
        assert_eq!(run(file.write(b"text")), Ok(4));
        run(file.flush()).expect("a flush");
        assert_eq!(kinds(&messages, Opcode::Flush), count);
    }
}

#[test]
fn sync_leaves_to_close_what_it_has_not_done() {
    let flushes = |error: i32| {
        let (vfs, _, messages) = recorded(move |header, _| {
            let replies = (header.opcode == Opcode::Fsync.number() && error != 0).then_some(Err(error));
            replies.or_else(|| (header.opcode == Opcode::Flush.number()).then(|| Ok(Vec::new())))
        });
        let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
        assert_eq!(run(file.write(b"text")), Ok(4));
        let result = run(file.sync(false));
        assert_eq!(run(file.flush()), Ok(()));
        let count = taken::<FlushIn>(&messages, Opcode::Flush).len();
        // A second call has nothing to write, so it sends no `Flush`.
        assert_eq!((run(file.sync(true)), run(file.flush())), (result, Ok(())));
        assert_eq!(taken::<FlushIn>(&messages, Opcode::Flush).len(), 0);
        (result, count)
    };
    assert_eq!(flushes(0), (Ok(()), 0));
    assert_eq!(flushes(Errno::EIO.number()), (Err(Errno::EIO), 1));
    // The server does not know `Fsync`: it may do its work in `Flush`.
    assert_eq!(flushes(Errno::ENOSYS.number()), (Ok(()), 1));
}

#[test]
fn cached_data_are_dropped_when_memory_is_short() {
    let (vfs, transport, messages) = with_memory(&Files::new(ramfs()));
    let file = file(&vfs);
    read_two(&file, &messages);
    vfs.reclaim();
    assert_eq!(requests_of(&messages, || assert_eq!(read(&file, 200, 50), 50)), 1);
    transport.stop();
    let mut memory = [MaybeUninit::uninit(); 100];
    assert_eq!(run(file.read_at(9000, &mut ReadBuffer::new(&mut memory))), Err(Errno::EIO));
}

#[test]
fn nothing_is_read_ahead_of_a_file_that_is_not_to_be_cached() {
    let (vfs, _, messages) = recorded(|header, _| {
        let open_flags = OpenReply::DIRECT_IO.bits();
        let opened = OpenOut { fh: header.nodeid, open_flags, padding: 0 };
        (header.opcode == Opcode::Open.number()).then(|| Ok(opened.as_bytes().to_vec()))
    });
    drop(file(&vfs));
    let file = open(&vfs, "/m/file", O_RDWR);
    for offset in [0, 100, 200] {
        assert_eq!(read(&file, offset, 100), 100);
    }
    let reads: Vec<ReadIn> = taken(&messages, Opcode::Read);
    assert_eq!(reads.iter().map(|read| read.size).collect::<Vec<_>>(), [100; 3]);
}

#[test]
fn size_is_set_by_handle_if_the_file_is_open() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = file(&vfs);
    run(file.set_size(5)).expect("a size");
    let requests: Vec<SetattrIn> = taken(&messages, Opcode::Setattr);
    let valid = SetattrValid::SIZE | SetattrValid::FH;
    assert!(requests.iter().all(|request| request.valid == valid.bits() && request.fh != 0), "{requests:?}");
    assert_eq!(requests.len(), 1);
}
