//! Calls by way of the client and the server have the same results as calls on the ramfs itself.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use hermit_abi::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use hermit_fs::{OpenFile, OpenedPath, RenameFlags, SetAttr, SetTime, Symlinks, Time, Vfs, Whence};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::server::{Files, serve};
use super::system::{TestSystem, mounted, ramfs, run};
use super::transport::ModelTransport;
use crate::{FuseClient, Transport as _};

type TestVfs = Vfs<TestSystem>;

#[derive(Clone, Debug)]
enum Step {
    Write { path: String, flags: i32, offset: Option<u16>, size: u16 },
    Read { path: String, offset: u16, size: u16 },
    Mkdir(String),
    Symlink(String, String),
    Link(String, String),
    Rename(String, String, u32),
    Unlink(String),
    Rmdir(String),
    SetAttr(String, Option<u16>, Option<u32>, bool),
    Inspect(String),
    ChangeDirectory(String),
}

fn path() -> impl Strategy<Value = String> {
    let names =
        select(vec!["a", "b", "a/c", "b/c", "a/c/d", "a/../b", "a/c/..", "b/.", "l", "l/x", "../m/b"]);
    (any::<bool>(), names)
        .prop_map(|(is_absolute, name)| if is_absolute { format!("/m/{name}") } else { name.into() })
}

fn step() -> impl Strategy<Value = Step> {
    let flags = select(vec![O_CREAT, O_CREAT | O_APPEND, O_CREAT | O_EXCL, O_TRUNC, O_CREAT | O_TRUNC]);
    prop_oneof![
        (path(), flags, any::<Option<u16>>(), any::<u16>())
            .prop_map(|(path, flags, offset, size)| Step::Write { path, flags, offset, size }),
        (path(), any::<u16>(), any::<u16>()).prop_map(|(path, offset, size)| Step::Read {
            path,
            offset,
            size
        }),
        path().prop_map(Step::Mkdir),
        (path(), path()).prop_map(|(target, path)| Step::Symlink(target, path)),
        (path(), path()).prop_map(|(old, new)| Step::Link(old, new)),
        (path(), path(), 0..3_u32).prop_map(|(old, new, flags)| Step::Rename(old, new, flags)),
        path().prop_map(Step::Unlink),
        path().prop_map(Step::Rmdir),
        (path(), any::<Option<u16>>(), any::<Option<u32>>(), any::<bool>())
            .prop_map(|(path, size, permissions, is_now)| Step::SetAttr(path, size, permissions, is_now)),
        path().prop_map(Step::Inspect),
        path().prop_map(Step::ChangeDirectory),
    ]
}

fn open(vfs: &TestVfs, path: &str, flags: i32) -> Result<Arc<OpenFile<TestSystem>>, Errno> {
    match run(vfs.open(path.as_bytes(), flags, 0o640))? {
        OpenedPath::File(file) => Ok(file),
        OpenedPath::Object(_) => Err(Errno::ENXIO),
    }
}

/// Reads up to `size` bytes, or to the end of the file. Only the number of bytes is checked here, because the
/// bytes are not visible without unsafe code. [`contents`] compares the bytes.
fn read(file: &OpenFile<TestSystem>, offset: u64, size: usize) -> Result<usize, Errno> {
    let mut memory: Vec<u8> = Vec::with_capacity(size);
    let mut buffer = ReadBuffer::new(&mut memory.spare_capacity_mut()[..size]);
    loop {
        let before = buffer.len();
        run(file.read_at(offset + before as u64, &mut buffer))?;
        if buffer.len() == before {
            return Ok(before);
        }
    }
}

fn write(vfs: &TestVfs, path: &str, flags: i32, offset: Option<u16>, size: usize) -> Result<u64, Errno> {
    let file = open(vfs, path, flags | O_RDWR)?;
    let bytes = (0..251).collect::<Vec<u8>>().repeat(size.div_ceil(251));
    let mut rest = &bytes[..size];
    while !rest.is_empty() {
        let done = (size - rest.len()) as u64;
        let count = match offset {
            Some(offset) => run(file.write_at(u64::from(offset) + done, rest))?,
            None => run(file.write(rest))?,
        };
        rest = &rest[count..];
    }
    run(file.sync(size.is_multiple_of(2)))?;
    run(file.seek(0, Whence::Current))
}

/// Entries with their types; with `shown` all bits set, with their numbers.
fn entries(vfs: &TestVfs, path: &str, shown: u64) -> Result<Vec<String>, Errno> {
    let directory = open(vfs, path, O_RDONLY | O_DIRECTORY)?;
    let mut names = Vec::new();
    run(vfs.read_directory(&directory, |entry| {
        names.push(format!("{:?} {} {:?}", entry.name.escape_ascii(), entry.number & shown, entry.file_type));
        ControlFlow::Continue(())
    }))?;
    names.sort();
    Ok(names)
}

fn inspect(vfs: &TestVfs, path: &str, shown: u64) -> String {
    let bytes = path.as_bytes();
    let metadata = |symlinks| {
        run(vfs.metadata(bytes, symlinks)).map(|metadata| {
            let attr = metadata.attr;
            // The protocol has no time of creation.
            (
                attr.number & shown,
                attr.mode,
                attr.nlink,
                attr.size,
                attr.blocks,
                attr.atime,
                attr.mtime,
                attr.ctime,
            )
        })
    };
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        metadata(Symlinks::Follow),
        metadata(Symlinks::Keep),
        run(vfs.read_link(bytes)),
        run(vfs.real_path(bytes)),
        entries(vfs, path, shown),
        run(vfs.usage(bytes)).map(|usage| (usage.blocks, usage.free_blocks)),
    )
}

/// Makes a step and describes its result in text. `shown` selects the bits of inode numbers to show.
fn take(vfs: &TestVfs, step: &Step, shown: u64) -> String {
    let done = match step {
        Step::Write { path, flags, offset, size } => {
            return format!("{:?}", write(vfs, path, *flags, *offset, usize::from(*size) / 2));
        }
        Step::Read { path, offset, size } => {
            let count = open(vfs, path, O_RDONLY)
                .and_then(|file| read(&file, (*offset / 4).into(), usize::from(*size)));
            return format!("{count:?}");
        }
        Step::Mkdir(path) => run(vfs.create_directory(path.as_bytes(), 0o711)),
        Step::Symlink(target, path) => run(vfs.create_symlink(target.as_bytes(), path.as_bytes())),
        Step::Link(old, new) => run(vfs.create_link(old.as_bytes(), new.as_bytes())),
        Step::Rename(old, new, flags) => {
            run(vfs.rename(old.as_bytes(), new.as_bytes(), RenameFlags::from_bits_retain(*flags)))
        }
        Step::Unlink(path) => run(vfs.remove_file(path.as_bytes())),
        Step::Rmdir(path) => run(vfs.remove_directory(path.as_bytes())),
        Step::SetAttr(path, size, permissions, is_now) => {
            let time = Time { seconds: -5, nanoseconds: 7 };
            let changes = SetAttr {
                size: size.map(u64::from),
                permissions: permissions.map(|bits| bits & 0o7777),
                mtime: Some(if *is_now { SetTime::Now } else { SetTime::To(time) }),
                ..SetAttr::default()
            };
            run(vfs.set_attributes(path.as_bytes(), Symlinks::Follow, &changes))
        }
        Step::Inspect(path) => return inspect(vfs, path, shown),
        Step::ChangeDirectory(path) => {
            let changed = run(vfs.change_directory(path.as_bytes()));
            return format!("{changed:?} {:?}", run(vfs.current_path()));
        }
    };
    format!("{done:?}")
}

/// A client of a server, whose transport and files are returned.
fn client() -> (TestVfs, ModelTransport, Arc<Files>) {
    client_of(Files::new(ramfs()))
}

fn client_of(files: Arc<Files>) -> (TestVfs, ModelTransport, Arc<Files>) {
    let transport = ModelTransport::new(serve(&files));
    let client = run(FuseClient::connect(transport.clone())).expect("a connection");
    (mounted(Arc::new(client)), transport, files)
}

proptest! {
    #[test]
    fn calls_behave_as_on_the_server(steps in vec(step(), 1..if cfg!(miri) { 12 } else { 40 })) {
        same_as_on_the_server(Files::new(ramfs()), u64::MAX, &steps)?;
    }

    // Nothing else changes the files, so names and attributes may be cached without a time limit. Cached
    // names keep their inodes in use, so the numbers of these inodes are not used again.
    #[test]
    fn calls_with_caches_behave_as_on_the_server(steps in vec(step(), 1..if cfg!(miri) { 12 } else { 40 })) {
        same_as_on_the_server(Files::with_validity(ramfs(), 1 << 30), 0, &steps)?;
    }
}

/// Checks that each step has the same result with a server and without one, and that no reference is left at
/// the end.
fn same_as_on_the_server(files: Arc<Files>, shown: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let (vfs, transport, files) = client_of(files);
    let direct = mounted(Arc::new(ramfs()));
    for vfs in [&vfs, &direct] {
        run(vfs.change_directory(b"/m")).unwrap();
    }
    for step in steps {
        prop_assert_eq!(take(&vfs, step, shown), take(&direct, step, shown), "{:?}", step);
    }
    prop_assert!(!transport.is_stopped());
    // All inodes without names are freed once nothing refers to them: no reference was forgotten too rarely
    // or too often.
    run(vfs.change_directory(b"/")).unwrap();
    vfs.forget_names();
    run(direct.change_directory(b"/")).unwrap();
    prop_assert_eq!(files.count(), run(direct.usage(b"/m")).unwrap().inodes);
    Ok(())
}

/// Number of files in the large directory: more than a reply has.
const COUNT: usize = if cfg!(miri) { 100 } else { 500 };

#[test]
fn large_directory_is_read_in_several_replies() {
    let (vfs, _, _) = client();
    for number in 0..COUNT {
        open(&vfs, &format!("/m/a file with quite a long name {number}"), O_CREAT | O_WRONLY).unwrap();
    }
    let names = entries(&vfs, "/m", u64::MAX).unwrap();
    assert_eq!(names.len(), COUNT);
    // A caller that stops goes on where it stopped.
    let directory = open(&vfs, "/m", O_RDONLY | O_DIRECTORY).unwrap();
    let mut count = 0;
    loop {
        let mut left = 7;
        run(directory.read_directory(|_| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        }))
        .unwrap();
        count += 7 - left;
        if left > 0 {
            break;
        }
    }
    assert_eq!(count, COUNT);
}
