//! Property test: random calls have the same results in the virtual file system and on Linux.

use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use std::ffi::OsStr;
use std::format;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::string::String;
use std::vec;
use std::vec::Vec;

use hermit_abi::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{CWD, Mode, OFlags};

use super::kept::Kept;
use crate::impls::RamFs;
use crate::interface::{RenameFlags, SetAttr};
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::{OpenedPath, Symlinks, Vfs};

/// A call with paths.
#[derive(Clone, Debug)]
enum Step {
    /// Opens, reads at an offset, writes bytes, and reports the size and the entries.
    Open {
        path: String,
        flags: i32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Metadata {
        path: String,
        symlinks: Symlinks,
    },
    CreateDirectory(String),
    RemoveDirectory(String),
    RemoveFile(String),
    Rename {
        from: String,
        to: String,
        flags: u32,
    },
    Link {
        existing: String,
        path: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    ReadLink(String),
    SetSize {
        path: String,
        size: u64,
    },
    SetPermissions {
        path: String,
        permissions: u32,
    },
}

/// Result of a call, in a form that both sides have.
type Outcome = Result<String, i32>;

/// The side under test.
struct Ours {
    ramfs: Arc<RamFs<TestSystem>>,
    vfs: Vfs<TestSystem>,
}

/// The reference: a folder of the host.
struct Linux(PathBuf);

/// Directories above those of the test, so that `..` in a path cannot lead out of them.
const PREFIX: &str = "a/b/c/d/e/f/g/h";

impl Ours {
    /// A ramfs, or a ramfs whose names and attributes are cached.
    fn new(is_kept: bool) -> Self {
        let (ramfs, vfs) = vfs(1 << 20);
        let vfs = if is_kept { Vfs::new(Kept::new(ramfs.clone(), u64::MAX)).unwrap() } else { vfs };
        let mut path = String::new();
        for name in PREFIX.split('/') {
            path = format!("{path}/{name}");
            run(vfs.create_directory(path.as_bytes(), 0o777)).unwrap();
        }
        run(vfs.change_directory(path.as_bytes())).unwrap();
        Self { ramfs, vfs }
    }

    fn step(&self, step: &Step) -> Outcome {
        let done = |()| String::new();
        let vfs = &self.vfs;
        let outcome = match step {
            Step::Open { path, flags, offset, bytes } => return self.open(path, *flags, *offset, bytes),
            Step::Metadata { path, symlinks } => {
                let found = run(vfs.metadata(path.as_bytes(), *symlinks)).map(|found| found.properties());
                found.map(|found| described(found.mode, found.nlink.into(), found.size))
            }
            Step::CreateDirectory(path) => run(vfs.create_directory(path.as_bytes(), 0o777)).map(done),
            Step::RemoveDirectory(path) => run(vfs.remove_directory(path.as_bytes())).map(done),
            Step::RemoveFile(path) => run(vfs.remove_file(path.as_bytes())).map(done),
            Step::Rename { from, to, flags } => {
                let flags = RenameFlags::from_bits_truncate(*flags);
                run(vfs.rename(from.as_bytes(), to.as_bytes(), flags)).map(done)
            }
            Step::Link { existing, path } => {
                run(vfs.create_link(existing.as_bytes(), path.as_bytes())).map(done)
            }
            Step::Symlink { target, path } => {
                run(vfs.create_symlink(target.as_bytes(), path.as_bytes())).map(done)
            }
            Step::ReadLink(path) => {
                run(vfs.read_link(path.as_bytes())).map(|target| String::from_utf8(target).unwrap())
            }
            Step::SetSize { path, size } => {
                let changes = SetAttr { size: Some(*size), ..SetAttr::default() };
                run(vfs.set_attributes(path.as_bytes(), Symlinks::Follow, &changes)).map(done)
            }
            Step::SetPermissions { path, permissions } => {
                let changes = SetAttr { permissions: Some(*permissions), ..SetAttr::default() };
                run(vfs.set_attributes(path.as_bytes(), Symlinks::Follow, &changes)).map(done)
            }
        };
        outcome.map_err(Errno::number)
    }

    fn open(&self, path: &str, flags: i32, offset: u64, bytes: &[u8]) -> Outcome {
        let now = self.vfs.try_open(path.as_bytes(), flags, 0o666);
        let open = || run(self.vfs.open(path.as_bytes(), flags, 0o666));
        let opened = now.map_or_else(open, |file| Ok(OpenedPath::File(file))).map_err(Errno::number)?;
        let OpenedPath::File(file) = opened else { panic!("a ramfs has no devices") };
        let mut memory = [MaybeUninit::uninit(); 5000];
        let mut buffer = ReadBuffer::new(&mut memory);
        let read = run(file.read_at(offset, &mut buffer)).map(|()| buffer.len());
        let written = run(file.write_at(offset, bytes));
        let mut names = Vec::new();
        let entries = run(file.read_directory(|entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            ControlFlow::Continue(())
        }));
        names.sort();
        let size = if entries.is_ok() { 0 } else { run(file.metadata()).unwrap().attr.size };
        let number = |result: Result<usize, Errno>| result.map_err(Errno::number);
        Ok(format!("{:?} {:?} {size} {names:?}", number(read), number(written)))
    }

    /// All paths below the current directory, with contents.
    fn tree(&self, path: &str, tree: &mut Vec<String>) {
        let OpenedPath::File(directory) = run(self.vfs.open(path.as_bytes(), O_DIRECTORY, 0)).unwrap() else {
            panic!("a ramfs has no devices")
        };
        let mut names = Vec::new();
        run(directory.read_directory(|entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            ControlFlow::Continue(())
        }))
        .unwrap();
        names.sort();
        for name in names {
            let path = format!("{path}/{name}");
            let attr = run(self.vfs.metadata(path.as_bytes(), Symlinks::Keep)).unwrap().attr;
            match attr.file_type() {
                crate::FileType::Directory => {
                    tree.push(format!("{path}/"));
                    self.tree(&path, tree);
                }
                crate::FileType::Symlink => {
                    let target = run(self.vfs.read_link(path.as_bytes())).unwrap();
                    tree.push(format!("{path} -> {}", String::from_utf8(target).unwrap()));
                }
                _ => tree.push(format!("{path} {:x}", checksum(&self.ramfs.contents(attr.ino)))),
            }
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// Type and permissions, and for anything but a directory the number of links and the size.
fn described(mode: u32, nlink: u64, size: u64) -> String {
    let is_directory = mode & 0o17_0000 == 0o4_0000;
    let (nlink, size) = if is_directory { (0, 0) } else { (nlink, size) };
    format!("{mode:o} {nlink} {size}")
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap()
}

impl Linux {
    fn path(&self, path: &str) -> PathBuf {
        // An empty path stays one. `join` would drop nothing else of it.
        if path.is_empty() {
            PathBuf::new()
        } else {
            Path::new(&format!("{}/{path}", self.0.display())).into()
        }
    }

    fn step(&self, step: &Step) -> Outcome {
        let done = |()| String::new();
        let outcome = match step {
            Step::Open { path, flags, offset, bytes } => return self.open(path, *flags, *offset, bytes),
            Step::Metadata { path, symlinks } => {
                let path = self.path(path);
                let metadata = match symlinks {
                    Symlinks::Follow => fs::metadata(path),
                    Symlinks::Keep => fs::symlink_metadata(path),
                };
                metadata.map(|metadata| described(metadata.mode(), metadata.nlink(), metadata.size()))
            }
            Step::CreateDirectory(path) => fs::create_dir(self.path(path)).map(done),
            Step::RemoveDirectory(path) => fs::remove_dir(self.path(path)).map(done),
            Step::RemoveFile(path) => fs::remove_file(self.path(path)).map(done),
            Step::Rename { from, to, flags } => {
                let flags = rustix::fs::RenameFlags::from_bits_retain(*flags);
                let renamed = rustix::fs::renameat_with(CWD, self.path(from), CWD, self.path(to), flags);
                renamed.map(done).map_err(Into::into)
            }
            Step::Link { existing, path } => {
                let flags = rustix::fs::AtFlags::empty();
                let linked = rustix::fs::linkat(CWD, self.path(existing), CWD, self.path(path), flags);
                linked.map(done).map_err(Into::into)
            }
            Step::Symlink { target, path } => {
                rustix::fs::symlink(OsStr::from_bytes(target.as_bytes()), self.path(path))
                    .map(done)
                    .map_err(Into::into)
            }
            Step::ReadLink(path) => {
                fs::read_link(self.path(path)).map(|target| target.into_os_string().into_string().unwrap())
            }
            Step::SetSize { path, size } => {
                let path = std::ffi::CString::new(self.path(path).as_os_str().as_bytes()).unwrap();
                truncate(&path, *size).map(done)
            }
            Step::SetPermissions { path, permissions } => {
                let mode = Mode::from_raw_mode(*permissions);
                rustix::fs::chmod(self.path(path), mode).map(done).map_err(Into::into)
            }
        };
        outcome.map_err(|error| errno(&error))
    }

    fn open(&self, path: &str, flags: i32, offset: u64, bytes: &[u8]) -> Outcome {
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        let opened = rustix::fs::open(self.path(path), flags, Mode::from_raw_mode(0o666));
        let file = fs::File::from(opened.map_err(rustix::io::Errno::raw_os_error)?);
        let mut memory = [0; 5000];
        let read = file.read_at(&mut memory, offset).map_err(|error| errno(&error));
        let written = file.write_at(bytes, offset).map_err(|error| errno(&error));
        let metadata = file.metadata().unwrap();
        let mut names = Vec::new();
        if metadata.is_dir() {
            let entries = fs::read_dir(self.path(path)).unwrap();
            names.extend(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
            names.sort();
        }
        let size = if metadata.is_dir() { 0 } else { metadata.len() };
        Ok(format!("{read:?} {written:?} {size} {names:?}"))
    }

    fn tree(&self, path: &str, tree: &mut Vec<String>) {
        let entries = fs::read_dir(self.path(path)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        for name in names {
            let path = format!("{path}/{name}");
            let full = self.path(&path);
            let file_type = fs::symlink_metadata(&full).unwrap().file_type();
            if file_type.is_dir() {
                tree.push(format!("{path}/"));
                self.tree(&path, tree);
            } else if file_type.is_symlink() {
                tree.push(format!("{path} -> {}", fs::read_link(full).unwrap().display()));
            } else {
                tree.push(format!("{path} {:x}", checksum(&fs::read(full).unwrap())));
            }
        }
    }
}

fn truncate(path: &std::ffi::CStr, size: u64) -> std::io::Result<()> {
    // Neither std nor rustix has `truncate`. Opening for writing first has the same errors, except for a
    // directory.
    let file = rustix::fs::open(path, OFlags::WRONLY, Mode::empty())?;
    rustix::fs::ftruncate(file, size).map_err(Into::into)
}

fn name() -> impl Strategy<Value = &'static str> {
    select(&["x", "y", "z", "."][..])
}

fn path() -> impl Strategy<Value = String> {
    let names = prop::collection::vec(name(), 1..4);
    (names, select(&["", "", "", "/", "//", "/.", "/.."][..]))
        .prop_map(|(names, end)| format!("{}{end}", names.join("/")))
}

fn flags() -> impl Strategy<Value = i32> {
    let access = select(&[O_RDONLY, O_WRONLY, O_RDWR][..]);
    let others = prop::collection::vec(
        select(&[0, O_CREAT, O_CREAT | O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW][..]),
        0..3,
    );
    (access, others).prop_map(|(access, others)| others.into_iter().fold(access, |flags, flag| flags | flag))
}

fn step() -> impl Strategy<Value = Step> {
    let size = || select(&[0, 1, 100, 4095, 4096, 4097, 8192, 300_000][..]);
    let bytes = (any::<u8>(), select(&[0_usize, 1, 10, 5000][..]));
    let symlinks = select(&[Symlinks::Follow, Symlinks::Keep][..]);
    let target = select(&["x", "y", "../x", "../y/z", "z/x", ".", "..", "nowhere", ""][..]);
    prop_oneof![
        4 => (path(), flags(), size(), bytes).prop_map(|(path, flags, offset, (byte, count))| {
            Step::Open { path, flags, offset, bytes: vec![byte; count] }
        }),
        2 => (path(), symlinks).prop_map(|(path, symlinks)| Step::Metadata { path, symlinks }),
        3 => path().prop_map(Step::CreateDirectory),
        1 => path().prop_map(Step::RemoveDirectory),
        1 => path().prop_map(Step::RemoveFile),
        3 => (path(), path(), 0_u32..4).prop_map(|(from, to, flags)| Step::Rename { from, to, flags }),
        2 => (path(), path()).prop_map(|(existing, path)| Step::Link { existing, path }),
        2 => (target, path()).prop_map(|(target, path)| Step::Symlink { target: target.into(), path }),
        1 => path().prop_map(Step::ReadLink),
        1 => (path(), size()).prop_map(|(path, size)| Step::SetSize { path, size }),
        1 => (path(), 0_u32..0o1000).prop_map(|(path, permissions)| Step::SetPermissions { path, permissions: permissions | 0o700 }),
    ]
}

/// A folder in memory, if the host has one; else a temporary folder.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "it needs the host's files")]
    fn calls_behave_as_on_linux(is_kept: bool, steps in prop::collection::vec(step(), 1..60)) {
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let folder = folder();
        fs::create_dir_all(folder.path().join(PREFIX)).unwrap();
        let (ours, linux) = (Ours::new(is_kept), Linux(folder.path().join(PREFIX)));
        for step in &steps {
            prop_assert_eq!(ours.step(step), linux.step(step), "{:?}", step);
        }
        let (mut our_tree, mut linux_tree) = (Vec::new(), Vec::new());
        ours.tree(".", &mut our_tree);
        linux.tree(".", &mut linux_tree);
        prop_assert_eq!(our_tree, linux_tree);
    }
}
