//! A FUSE server whose files are those of a ramfs.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;

use hermit_fs::{
    Attr, Call, Entry, FileSystem, Ino, Lookup, Name, OpenInode, RamFs, RenameFlags, Reply, SetAttr, SetTime,
    Time, WriteAt,
};
use hermit_fuse::dirent::{Dirent, write_record};
use hermit_fuse::flags::{InitFlags, SetattrValid};
use hermit_fuse::reply::{self, AttrOut, EntryOut, InitOut, OpenOut, StatfsOut, WriteOut};
use hermit_fuse::request::{
    CreateIn, ForgetIn, LinkIn, MkdirIn, OpenIn, ReadIn, ReleaseIn, Rename2In, RenameIn, SetattrIn, WriteIn,
};
use hermit_fuse::{InHeader, Opcode, OutHeader};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::system::TestSystem;

/// Bit of the handles of directories, and of those of files opened for appending.
const DIRECTORY: u64 = 1 << 40;
const APPENDING: u64 = 1 << 41;

/// A ramfs, and copies of the contents of its files. The copies are needed because reading from a ramfs needs
/// unsafe code.
#[derive(Debug)]
pub(super) struct Files {
    ramfs: RamFs<TestSystem>,
    contents: Mutex<HashMap<u64, Vec<u8>>>,
    /// How long names and attributes may be kept, in seconds.
    validity: u64,
}

impl Files {
    pub(super) fn new(ramfs: RamFs<TestSystem>) -> Arc<Self> {
        Self::with_validity(ramfs, 0)
    }

    /// Creates files whose names and attributes may be cached for a number of seconds. Listings return the
    /// attributes along with the names.
    pub(super) fn with_validity(ramfs: RamFs<TestSystem>, validity: u64) -> Arc<Self> {
        Arc::new(Self { ramfs, contents: Mutex::default(), validity })
    }

    fn entry(&self, entry: &Entry<TestSystem>) -> EntryOut {
        let nodeid = entry.attr.ino.0;
        let (entry_valid, attr_valid) = (self.validity, self.validity);
        EntryOut {
            nodeid,
            generation: 0,
            entry_valid,
            attr_valid,
            attr: attr(&entry.attr),
            ..EntryOut::default()
        }
    }

    fn attr(&self, value: &Attr) -> Vec<u8> {
        bytes(&AttrOut { attr: attr(value), attr_valid: self.validity, ..AttrOut::default() })
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<EntryOut, Errno> {
        match now(|call| self.ramfs.lookup(call, Name { parent, name })).and_then(Lookup::found) {
            // A node of 0 means that there is none.
            Err(Errno::ENOENT) if self.validity > 0 => {
                Ok(EntryOut { entry_valid: self.validity, ..EntryOut::default() })
            }
            found => found.map(|found| self.entry(&found)),
        }
    }

    fn change<T>(&self, ino: Ino, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(self.contents.lock().entry(ino.0).or_default())
    }

    /// Bytes that were written to the file with this number.
    pub(super) fn written(&self, number: u64) -> Vec<u8> {
        self.change(Ino(number), |bytes| bytes.clone())
    }

    /// Number of inodes of the ramfs.
    pub(super) fn count(&self) -> u64 {
        now(|call| self.ramfs.statfs(call)).expect("usage").inodes
    }
}

/// Creates a reply to a request. The header has the request's identifier.
pub(super) fn reply(unique: u64, result: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, payload) = result.map_or_else(|error| (-error, Vec::new()), |payload| (0, payload));
    let len = u32::try_from(size_of::<OutHeader>() + payload.len()).unwrap();
    [OutHeader { len, error, unique }.as_bytes(), &payload].concat()
}

fn now<T>(request: impl FnOnce(&mut Call<'_, '_>) -> Reply<T>) -> Result<T, Errno> {
    let mut context = Context::from_waker(Waker::noop());
    match request(&mut Call { context: &mut context, ticket: &mut None }) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a ramfs is never pending"),
    }
}

fn take<T: FromBytes>(bytes: &[u8]) -> (T, &[u8]) {
    T::read_from_prefix(bytes).expect("a whole structure")
}

fn name(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).expect("a zero byte");
    (&bytes[..end], &bytes[end + 1..])
}

fn bytes(value: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    value.as_bytes().to_vec()
}

fn attr(attr: &Attr) -> reply::Attr {
    reply::Attr {
        ino: attr.number,
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.seconds.cast_unsigned(),
        mtime: attr.mtime.seconds.cast_unsigned(),
        ctime: attr.ctime.seconds.cast_unsigned(),
        atimensec: attr.atime.nanoseconds,
        mtimensec: attr.mtime.nanoseconds,
        ctimensec: attr.ctime.nanoseconds,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: 0,
        blksize: attr.block_size,
        flags: 0,
    }
}

/// A server of these files.
pub(super) fn serve(files: &Arc<Files>) -> impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + use<> {
    let files = Arc::clone(files);
    move |message| {
        let (header, body): (InHeader, _) = take(message);
        assert_eq!(header.len as usize, message.len());
        let opcode = Opcode::from_number(header.opcode).expect("a known request");
        let result = answer(&files, opcode, Ino(header.nodeid), body);
        let reply = reply(header.unique, result.map_err(Errno::number));
        (!opcode.has_no_reply()).then_some(reply)
    }
}

fn answer(files: &Files, opcode: Opcode, ino: Ino, body: &[u8]) -> Result<Vec<u8>, Errno> {
    match opcode {
        Opcode::Init => {
            let flags =
                if files.validity > 0 { InitFlags::DO_READDIRPLUS } else { InitFlags::empty() }.bits();
            Ok(bytes(&InitOut { major: 7, minor: 31, max_write: 5000, flags, ..InitOut::default() }))
        }
        Opcode::Forget => {
            files.ramfs.forget(ino, take::<ForgetIn>(body).0.nlookup);
            Ok(Vec::new())
        }
        Opcode::Getattr => now(|call| files.ramfs.getattr(call, ino)).map(|attr| files.attr(&attr)),
        Opcode::Setattr => setattr(files, ino, &take(body).0),
        Opcode::Statfs => {
            let usage = now(|call| files.ramfs.statfs(call))?;
            let (frsize, blocks, bfree) = (usage.block_size, usage.blocks, usage.free_blocks);
            let files = usage.inodes + 3;
            Ok(bytes(&StatfsOut { frsize, blocks, bfree, files, ffree: 3, ..StatfsOut::default() }))
        }
        Opcode::Open
        | Opcode::Opendir
        | Opcode::Release
        | Opcode::Releasedir
        | Opcode::Fsync
        | Opcode::Fsyncdir
        | Opcode::Read
        | Opcode::Write
        | Opcode::Readdir
        | Opcode::Readdirplus => opened(files, opcode, ino, body),
        _ => names(files, opcode, ino, body),
    }
}

fn setattr(files: &Files, ino: Ino, body: &SetattrIn) -> Result<Vec<u8>, Errno> {
    let valid = SetattrValid::from_bits_retain(body.valid);
    let time = |flag, now, seconds: u64, nanoseconds| {
        let given = SetTime::To(Time { seconds: seconds.cast_signed(), nanoseconds });
        valid.contains(flag).then(|| if valid.contains(now) { SetTime::Now } else { given })
    };
    let changes = SetAttr {
        permissions: valid.contains(SetattrValid::MODE).then_some(body.mode),
        size: valid.contains(SetattrValid::SIZE).then_some(body.size),
        atime: time(SetattrValid::ATIME, SetattrValid::ATIME_NOW, body.atime, body.atimensec),
        mtime: time(SetattrValid::MTIME, SetattrValid::MTIME_NOW, body.mtime, body.mtimensec),
        handle: valid.contains(SetattrValid::FH).then_some(body.fh),
    };
    let attr = now(|call| files.ramfs.setattr(call, ino, &changes))?;
    if let Some(size) = changes.size {
        files.change(ino, |bytes| bytes.resize(usize::try_from(size).unwrap(), 0));
    }
    Ok(files.attr(&attr))
}

fn opened(files: &Files, opcode: Opcode, ino: Ino, body: &[u8]) -> Result<Vec<u8>, Errno> {
    match opcode {
        Opcode::Open | Opcode::Opendir => {
            let (body, _): (OpenIn, _) = take(body);
            let kind = if opcode == Opcode::Opendir { DIRECTORY } else { 0 };
            let appending = if body.flags.cast_signed() & hermit_abi::O_APPEND == 0 { 0 } else { APPENDING };
            Ok(bytes(&OpenOut { fh: ino.0 | kind | appending, ..OpenOut::default() }))
        }
        Opcode::Release | Opcode::Releasedir => {
            let (body, _): (ReleaseIn, _) = take(body);
            assert_eq!(body.fh & DIRECTORY != 0, opcode == Opcode::Releasedir);
            Ok(Vec::new())
        }
        Opcode::Read => {
            let (body, _): (ReadIn, _) = take(body);
            let mut memory = vec![MaybeUninit::uninit(); body.size as usize];
            let mut buffer = ReadBuffer::new(&mut memory);
            let file = OpenInode { ino, handle: 0 };
            now(|call| files.ramfs.read(call, file, body.offset, &mut buffer))?;
            let start = usize::try_from(body.offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(buffer.len());
            Ok(files.change(ino, |bytes| bytes.get(start..end).unwrap_or_default().to_vec()))
        }
        Opcode::Write => {
            let (body, data): (WriteIn, _) = take(body);
            assert_eq!(body.size as usize, data.len());
            let start = if body.fh & APPENDING == 0 { WriteAt::Offset(body.offset) } else { WriteAt::End };
            let written = now(|call| files.ramfs.write(call, OpenInode { ino, handle: 0 }, start, data))?;
            let end = usize::try_from(written.end.expect("known")).unwrap();
            files.change(ino, |bytes| {
                bytes.resize(bytes.len().max(end), 0);
                bytes[end - written.count..end].copy_from_slice(&data[..written.count]);
            });
            Ok(bytes(&WriteOut { size: u32::try_from(written.count).unwrap(), padding: 0 }))
        }
        Opcode::Readdir | Opcode::Readdirplus => {
            let (body, _): (ReadIn, _) = take(body);
            assert!(body.fh & DIRECTORY != 0);
            readdir(files, ino, &body, opcode == Opcode::Readdirplus)
        }
        _ => Ok(Vec::new()),
    }
}

fn readdir(files: &Files, ino: Ino, body: &ReadIn, is_plus: bool) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; body.size as usize];
    let mut filled = 0;
    let mut push = |number, off, name: &[u8], kind: u32| {
        let dirent = Dirent { ino: number, off, namelen: 0, kind };
        let room = &mut bytes[filled..];
        // A reference is given with a record for which there is room.
        if write_record(room, is_plus.then_some(&EntryOut::default()), dirent, name).is_none() {
            return ControlFlow::Break(());
        }
        let inode = (is_plus && off > 2).then(|| files.lookup(ino, name)).transpose().expect("an inode");
        let inode = inode.or_else(|| is_plus.then(EntryOut::default));
        filled += write_record(room, inode.as_ref(), dirent, name).expect("room");
        ControlFlow::Continue(())
    };
    // Offsets 1 and 2 are behind `.` and `..`.
    if body.offset == 0 && push(ino.0, 1, b".", 4).is_break()
        || body.offset <= 1 && push(ino.0, 2, b"..", 4).is_break()
    {
        return Err(Errno::EINVAL);
    }
    let directory = OpenInode { ino, handle: 0 };
    // Entries are looked up without the lock under which they are read.
    let mut entries = Vec::new();
    now(|call| {
        files.ramfs.readdir(call, directory, body.offset.saturating_sub(2), &mut |entry| {
            entries.push((entry.number, entry.next + 2, entry.name.to_vec(), entry.file_type.dirent_type()));
            ControlFlow::Continue(())
        })
    })?;
    // The listing stops at the first entry that has no room.
    let _: ControlFlow<()> =
        entries.iter().try_for_each(|(number, off, name, kind)| push(*number, *off, name, (*kind).into()));
    bytes.truncate(filled);
    Ok(bytes)
}

fn names(files: &Files, opcode: Opcode, parent: Ino, body: &[u8]) -> Result<Vec<u8>, Errno> {
    let at = |name| Name { parent, name };
    let made = |result: Result<Entry<TestSystem>, Errno>| result.map(|made| bytes(&files.entry(&made)));
    match opcode {
        Opcode::Lookup => {
            let (name, _) = name(body);
            assert_ne!(name, b"..");
            files.lookup(parent, name).map(|found| bytes(&found))
        }
        Opcode::Readlink => {
            let mut target = Vec::new();
            now(|call| files.ramfs.readlink(call, parent, &mut target)).map(|()| target)
        }
        Opcode::Symlink => {
            let (name, rest) = name(body);
            made(now(|call| files.ramfs.symlink(call, at(name), self::name(rest).0)))
        }
        Opcode::Mkdir => {
            let (body, rest): (MkdirIn, _) = take(body);
            made(now(|call| files.ramfs.mkdir(call, at(name(rest).0), body.mode)))
        }
        Opcode::Create => {
            let (body, rest): (CreateIn, _) = take(body);
            let flags = body.flags.cast_signed();
            let (made, _) =
                now(|call| files.ramfs.create(call, at(name(rest).0), body.mode & 0o7777, flags))?;
            files.change(made.attr.ino, Vec::clear);
            let appending = if flags & hermit_abi::O_APPEND == 0 { 0 } else { APPENDING };
            let open = OpenOut { fh: made.attr.ino.0 | appending, ..OpenOut::default() };
            Ok([bytes(&files.entry(&made)), bytes(&open)].concat())
        }
        Opcode::Link => {
            let (body, rest): (LinkIn, _) = take(body);
            made(now(|call| files.ramfs.link(call, Ino(body.oldnodeid), at(name(rest).0))))
        }
        Opcode::Unlink => now(|call| files.ramfs.unlink(call, at(name(body).0))).map(|()| Vec::new()),
        Opcode::Rmdir => now(|call| files.ramfs.rmdir(call, at(name(body).0))).map(|()| Vec::new()),
        Opcode::Rename | Opcode::Rename2 => {
            let (newdir, flags, rest) = if opcode == Opcode::Rename {
                let (body, rest): (RenameIn, _) = take(body);
                (body.newdir, 0, rest)
            } else {
                let (body, rest): (Rename2In, _) = take(body);
                (body.newdir, body.flags, rest)
            };
            let (old, rest) = name(rest);
            let new = Name { parent: Ino(newdir), name: name(rest).0 };
            let flags = RenameFlags::from_bits_retain(flags);
            now(|call| files.ramfs.rename(call, at(old), new, flags)).map(|()| Vec::new())
        }
        _ => Err(Errno::ENOSYS),
    }
}
