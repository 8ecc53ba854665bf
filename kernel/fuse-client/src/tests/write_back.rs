//! Tests of collected small writes: only the server can notice that they are collected.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_abi::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use hermit_fs::{OpenFile, SetAttr, Symlinks, Vfs};
use hermit_fuse::flags::OpenReply;
use hermit_fuse::reply::{OpenOut, StatfsOut};
use hermit_fuse::request::WriteIn;
use hermit_fuse::{InHeader, Opcode};
use hermit_interface::Errno;
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::requests::{Messages, open, read, recorded, taken};
use super::server::{Files, serve};
use super::system::{MONOTONIC, TestSystem, mounted, ramfs, run};
use super::transport::ModelTransport;
use crate::FuseClient;

type File = OpenFile<TestSystem>;

/// Action that needs the collected writes of a file.
type Action<'a> = dyn Fn(&Vfs<TestSystem>, &File) + 'a;

/// A call that reports an error of a write.
type Report = fn(&File) -> Result<(), Errno>;

/// Maximum size of a write to the server ([`serve`]), and so the maximum that is collected.
const MAX: usize = 5000;

/// `O_SYNC` of Linux.
const O_SYNC: i32 = 0o4_010_000;

/// Returns the kinds of the messages so far, and removes the messages from the record.
fn kinds(messages: &Messages) -> Vec<Opcode> {
    let headers = core::mem::take(&mut *messages.lock());
    let headers = headers.iter().map(|message| InHeader::read_from_prefix(message).expect("a header").0);
    headers.map(|header| Opcode::from_number(header.opcode).expect("a known request")).collect()
}

/// Offset and size of the writes so far.
fn writes(messages: &Messages) -> Vec<(u64, u32)> {
    taken::<WriteIn>(messages, Opcode::Write).iter().map(|write| (write.offset, write.size)).collect()
}

fn write(file: &File, size: usize) {
    assert_eq!(run(file.write(&vec![7; size])), Ok(size));
}

/// A file with 100 written bytes and 50 collected ones.
fn collecting(vfs: &Vfs<TestSystem>, messages: &Messages, flags: i32) -> Arc<File> {
    let file = open(vfs, "/m/file", O_RDWR | O_CREAT | flags);
    write(&file, 100);
    for _ in 0..5 {
        write(&file, 10);
    }
    assert_eq!(writes(messages).len(), 1, "the first write alone is sent");
    file
}

#[test]
fn small_writes_one_after_the_other_are_few_requests() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = open(&vfs, "/m/file", O_RDWR | O_CREAT);
    for _ in 0..200 {
        write(&file, 100);
    }
    run(file.flush()).expect("a flush");
    // The second piece of the buffer may be sent in smaller ones: the transport has no memory at times.
    let writes = writes(&messages);
    assert!(writes.len() <= 14, "{writes:?}");
    assert_eq!(writes.iter().map(|write| write.1).sum::<u32>(), 20_000);
    assert_eq!(run(file.metadata()).expect("metadata").attr.size, 20_000);
}

#[test]
fn requests_that_depend_on_collected_writes_come_after_them() {
    let changes = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
    let actions: [(&str, &Action<'_>); 10] = [
        ("read", &|_, file| assert_eq!(read(file, 140, 100), 10)),
        ("read by another opening", &|vfs, _| assert_eq!(read(&open(vfs, "/m/file", O_RDONLY), 0, 500), 150)),
        ("metadata", &|_, file| assert_eq!(run(file.metadata()).expect("metadata").attr.size, 150)),
        ("metadata by path", &|vfs, _| {
            assert_eq!(run(vfs.metadata(b"/m/file", Symlinks::Keep)).expect("metadata").attr.size, 150);
        }),
        ("size", &|_, file| run(file.set_size(120)).expect("a size")),
        ("attributes", &|vfs, _| {
            run(vfs.set_attributes(b"/m/file", Symlinks::Keep, &changes)).expect("attributes");
        }),
        ("write elsewhere", &|_, file| assert_eq!(run(file.write_at(3, b"x")), Ok(1))),
        ("write by another opening", &|vfs, _| write(&open(vfs, "/m/file", O_WRONLY), 5)),
        ("large write", &|_, file| assert_eq!(run(file.write_at(150, &[1; MAX])), Ok(MAX))),
        ("fsync", &|_, file| run(file.sync(true)).expect("a sync")),
    ];
    for (name, action) in actions {
        let (vfs, _, messages) = recorded(|_, _| None);
        let file = collecting(&vfs, &messages, 0);
        action(&vfs, &file);
        let requests = kinds(&messages);
        let written = requests.iter().position(|kind| *kind == Opcode::Write);
        let dependent =
            |kind: &Opcode| matches!(kind, Opcode::Read | Opcode::Getattr | Opcode::Setattr | Opcode::Fsync);
        let first = requests.iter().position(dependent).unwrap_or(usize::MAX);
        assert!(written.is_some_and(|written| written < first), "{name}: {requests:?}");
    }
}

#[test]
fn collected_writes_are_sent_in_time_and_before_the_release() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = collecting(&vfs, &messages, 0);
    assert_eq!(run(vfs.write_back(0, true)), Ok(Some(1_000_000_000)));
    assert_eq!(kinds(&messages), []);
    MONOTONIC.set(1_000_000_000);
    assert_eq!(run(vfs.write_back(0, true)), Ok(None));
    assert_eq!(writes(&messages), [(100, 50)]);
    // The sequence goes on, and the file is dropped without a flush, as when it is closed during a write.
    write(&file, 10);
    messages.lock().clear();
    drop(file);
    run(vfs.write_back(0, false)).expect("memory");
    let kinds = kinds(&messages);
    let position = |wanted| kinds.iter().position(|kind| *kind == wanted);
    assert!(position(Opcode::Write) < position(Opcode::Release), "{kinds:?}");
    assert!(position(Opcode::Write).is_some(), "{kinds:?}");
}

#[test]
fn appended_pieces_are_collected() {
    let (vfs, _, messages) = recorded(|_, _| None);
    let file = collecting(&vfs, &messages, O_APPEND);
    // The position is known without asking the server.
    assert_eq!(run(file.seek(0, hermit_fs::Whence::Current)), Ok(150));
    let other = open(&vfs, "/m/file", O_WRONLY | O_APPEND);
    write(&other, 30);
    write(&file, 20);
    assert_eq!(run(file.seek(0, hermit_fs::Whence::Current)), Ok(200));
    assert_eq!(run(file.metadata()).expect("metadata").attr.size, 200);
    run(other.set_size(10)).expect("a size");
    write(&file, 20);
    assert_eq!(run(file.seek(0, hermit_fs::Whence::Current)), Ok(30));
}

/// The server has appended the bytes, but does not report their offset.
#[test]
fn append_after_which_the_size_is_unknown_leaves_the_position() {
    let is_failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&is_failing);
    let (vfs, _, messages) = recorded(move |header, _| {
        let is_getattr = header.opcode == Opcode::Getattr.number();
        (is_getattr && fails.load(Relaxed)).then(|| Err(Errno::EIO.number()))
    });
    write(&open(&vfs, "/m/file", O_RDWR | O_CREAT | O_APPEND), 100);
    let file = open(&vfs, "/m/file", O_RDWR | O_APPEND);
    let position = || run(file.seek(0, hermit_fs::Whence::Current));
    assert_eq!(run(file.seek(40, hermit_fs::Whence::Start)), Ok(40));
    is_failing.store(true, Relaxed);
    write(&file, 3);
    assert_eq!(position(), Ok(40));
    // No write continues a write whose offset is unknown, so no write is collected.
    messages.lock().clear();
    write(&file, 3);
    assert_eq!((writes(&messages).len(), position()), (1, Ok(40)));
    is_failing.store(false, Relaxed);
    write(&file, 3);
    assert_eq!(position(), Ok(109));
}

#[test]
fn errors_of_collected_writes_are_reported_once() {
    let report: [Report; 3] =
        [|file| run(file.write(b"x")).map(drop), |file| run(file.sync(false)), |file| run(file.flush())];
    for (index, report) in report.into_iter().enumerate() {
        for is_seen_before in [false, true] {
            let mut count = 0;
            let (vfs, _, messages) = recorded(move |header, _| {
                count += u32::from(header.opcode == Opcode::Write.number());
                let fails = header.opcode == Opcode::Write.number() && count == 2;
                fails.then_some(Err(Errno::EIO.number()))
            });
            let file = collecting(&vfs, &messages, 0);
            if is_seen_before {
                // Another call writes out the data, and does not fail because of the error.
                assert_eq!(run(file.metadata()).expect("metadata").attr.size, 100);
            } else if index == 0 {
                run(vfs.write_back(0, false)).expect("memory");
            }
            assert!(file.is_dirty());
            assert_eq!(report(&file), Err(Errno::EIO), "{index} {is_seen_before}");
            assert_eq!((run(file.sync(false)), run(file.flush())), (Ok(()), Ok(())));
            assert_eq!(run(file.write(b"x")), Ok(1));
        }
    }
}

#[test]
fn what_must_be_written_at_once_is_not_collected() {
    let count = |flags: i32, open_flags: OpenReply, free: u64| {
        let (vfs, _, messages) = recorded(move |header, _| {
            let opened = OpenOut { fh: header.nodeid, open_flags: open_flags.bits(), padding: 0 };
            let usage = StatfsOut { frsize: 1, bfree: free, ..StatfsOut::default() };
            match Opcode::from_number(header.opcode)? {
                Opcode::Open => Some(Ok(opened.as_bytes().to_vec())),
                Opcode::Statfs => Some(Ok(usage.as_bytes().to_vec())),
                _ => None,
            }
        });
        drop(open(&vfs, "/m/file", O_WRONLY | O_CREAT));
        let file = open(&vfs, "/m/file", O_WRONLY | flags);
        for _ in 0..10 {
            write(&file, 10);
        }
        writes(&messages).len()
    };
    let none = OpenReply::empty();
    assert_eq!(count(0, none, 1 << 30), 1);
    assert_eq!(count(0, OpenReply::DIRECT_IO, 1 << 30), 10);
    assert_eq!(count(O_SYNC, none, 1 << 30), 10);
    // Writes are collected only if there is twice the space that they need.
    assert_eq!(count(0, none, 2 * MAX as u64), 1);
    assert_eq!(count(0, none, 2 * MAX as u64 - 1), 10);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    WriteAt(usize, u16, usize),
    Read(usize, u16, usize),
    SetSize(usize, u16),
    Metadata(usize),
    Sync(usize),
    Reopen(usize),
    WriteBack,
}

/// Number of openings: two of each of two files. One of each two appends.
const OPENINGS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let opening = || 0..OPENINGS;
    // Mostly small writes. Some are as large as the maximum that is collected.
    let size = || prop_oneof![4 => 1..300_usize, 1 => 1..6000_usize];
    prop_oneof![
        8 => (opening(), size()).prop_map(|(opening, size)| Step::Write(opening, size)),
        2 => (opening(), 0..8000_u16, size()).prop_map(|(opening, at, size)| Step::WriteAt(opening, at, size)),
        1 => (opening(), 0..8000_u16, size()).prop_map(|(opening, at, size)| Step::Read(opening, at, size)),
        1 => (opening(), 0..8000_u16).prop_map(|(opening, size)| Step::SetSize(opening, size)),
        1 => opening().prop_map(Step::Metadata),
        1 => opening().prop_map(Step::Sync),
        1 => opening().prop_map(Step::Reopen),
        1 => Just(Step::WriteBack),
    ]
}

const fn is_appending(opening: usize) -> bool {
    opening % OPENINGS == 3
}

fn reopen(vfs: &Vfs<TestSystem>, opening: usize) -> Arc<File> {
    let path = if opening < OPENINGS / 2 { "/m/a" } else { "/m/b" };
    open(vfs, path, O_RDWR | O_CREAT | if is_appending(opening) { O_APPEND } else { 0 })
}

/// Writes all bytes to a file and to the model of it; without an offset, at the position.
fn write_both(
    (file, position): (&File, &mut usize),
    (model, is_appending): (&mut Vec<u8>, bool),
    offset: Option<usize>,
    bytes: &[u8],
) {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        let count = match offset {
            Some(offset) => run(file.write_at((offset + done) as u64, rest)),
            None => run(file.write(rest)),
        };
        let count = count.expect("a write");
        let start = if is_appending { model.len() } else { offset.map_or(*position, |offset| offset + done) };
        model.resize(model.len().max(start + count), 0);
        model[start..start + count].copy_from_slice(&rest[..count]);
        if offset.is_none() {
            *position = start + count;
        }
        done += count;
    }
}

proptest! {
    #[test]
    fn collected_writes_are_seen_as_if_they_had_been_sent(
        steps in vec(step(), 1..if cfg!(miri) { 12 } else { 60 })
    ) {
        let files = Files::new(ramfs());
        let client = run(FuseClient::connect(ModelTransport::new(serve(&files)))).expect("a connection");
        let vfs = mounted(Arc::new(client));
        let mut openings: Vec<_> = (0..OPENINGS).map(|opening| (reopen(&vfs, opening), 0_usize)).collect();
        let mut models = [Vec::new(), Vec::new()];
        for (step, byte) in steps.iter().zip((1..=251_u8).cycle()) {
            match *step {
                Step::Write(opening, size) | Step::WriteAt(opening, _, size) => {
                    let offset = if let Step::WriteAt(_, at, _) = *step { Some(at.into()) } else { None };
                    let (file, position) = &mut openings[opening];
                    let model = (&mut models[opening / 2], is_appending(opening));
                    write_both((file, position), model, offset, &vec![byte; size]);
                }
                Step::Read(opening, at, size) => {
                    let rest = models[opening / 2].len().saturating_sub(at.into());
                    let count = read(&openings[opening].0, at.into(), size);
                    // It may be short, but not at the beginning.
                    prop_assert!(count <= rest.min(size) && (count > 0 || rest == 0), "{step:?}: {count}");
                }
                Step::SetSize(opening, size) => {
                    run(openings[opening].0.set_size(size.into())).expect("a size");
                    models[opening / 2].resize(size.into(), 0);
                }
                Step::Metadata(opening) => {
                    let metadata = run(openings[opening].0.metadata()).expect("metadata");
                    prop_assert_eq!(metadata.attr.size, models[opening / 2].len() as u64, "{:?}", step);
                }
                Step::Sync(opening) => {
                    run(openings[opening].0.sync(false)).expect("a sync");
                    let number = run(openings[opening].0.metadata()).expect("metadata").attr.number;
                    prop_assert_eq!(&files.written(number), &models[opening / 2], "{:?}", step);
                }
                Step::Reopen(opening) => {
                    run(openings[opening].0.flush()).expect("a flush");
                    openings[opening] = (reopen(&vfs, opening), 0);
                }
                Step::WriteBack => {
                    run(vfs.write_back(0, false)).expect("memory");
                }
            }
        }
        for (opening, model) in [(0, &models[0]), (2, &models[1])] {
            let number = run(openings[opening].0.metadata()).expect("metadata").attr.number;
            prop_assert_eq!(&files.written(number), model);
        }
    }
}

#[test]
fn sync_by_another_opening_reports_lost_writes() {
    let mut count = 0;
    let (vfs, _, messages) = recorded(move |header, _| {
        count += u32::from(header.opcode == Opcode::Write.number());
        (header.opcode == Opcode::Write.number() && count == 2).then_some(Err(Errno::EIO.number()))
    });
    let _file = collecting(&vfs, &messages, 0);
    let other = open(&vfs, "/m/file", O_RDWR);
    assert_eq!(run(other.sync(false)), Err(Errno::EIO));
}
