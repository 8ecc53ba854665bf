//! The implementation of the file system interface: translates requests into messages.
//!
//! Each method creates a message from its arguments, submits it through the transport, and later checks and
//! converts the reply. The caller polls a method with the same arguments until the reply has arrived, and
//! only the first poll creates the message. The server's node numbers are the inode numbers. A handle
//! consists of the server's number and a few bits of the client ([`Handle`]). Some calls are not exactly one
//! message: an appending write, for example, asks for the size of the file afterwards.

use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Poll, ready};

use hermit_abi::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, S_IFREG};
use hermit_fs::{
    Attr, Call, Capabilities, DirEntry, EntriesPlus, Entry, FileSystem, Ino, Lookup, Name, OpenInode, Opened,
    ReadTarget, RenameFlags, Reply, SetAttr, StatFs, System, WriteAt, Written,
};
use hermit_fuse::flags::FSYNC_DATASYNC;
use hermit_fuse::reply::{AttrOut, EntryOut, OpenOut, StatfsOut};
use hermit_fuse::request::{
    CreateIn, FlushIn, FsyncIn, GetattrIn, LinkIn, MkdirIn, OpenIn, ReadIn, Rename2In, RenameIn,
};
use hermit_fuse::{Opcode, ROOT_NODE};
use hermit_interface::{Errno, to_usize};
use hermit_io::ACCESS_MODE;

use crate::client::{Extent, FuseClient};
use crate::convert;
use crate::handle::Handle;
use crate::message::Head;
use crate::reply::{Failure, Payload};
use crate::transport::Transport;

/// Maximum size in bytes of the target of a symbolic link.
const MAX_TARGET: usize = 4096;

/// Flags of `open` that are passed to the server. They include `O_APPEND`, since the server itself appends.
const OPEN_FLAGS: i32 = ACCESS_MODE | O_APPEND | O_DIRECTORY | O_SYNC;

/// Each write is durable when it returns: as after `fdatasync` with `O_DSYNC`, and as after `fsync` with
/// `O_SYNC` (Linux, `fcntl.h`).
const O_DSYNC: i32 = 0o10_000;
const O_SYNC: i32 = 0o4_000_000 | O_DSYNC;

/// Maximum number of bytes of small writes that are collected.
const MAX_COLLECTED: usize = 512 << 10;

impl<T: Transport> FuseClient<T> {
    /// Submits a request with `wanted` bytes of data. As long as there is no memory for the data, halves the
    /// size and tries again, down to the size for which the transport always has memory.
    pub(crate) fn submit_sized<'a>(
        &self,
        call: &mut Call<'_, '_>,
        wanted: usize,
        request: impl Fn(usize) -> (Head, Extent<'a>),
    ) -> Poll<Result<(), Errno>> {
        let min = self.transport.min_data();
        let mut size = wanted;
        loop {
            let (head, extent) = request(size);
            match self.submit(call, head, extent) {
                Poll::Ready(Err(Errno::ENOMEM)) if size > min => size = (size / 2).max(min),
                submitted => return submitted,
            }
        }
    }

    /// Makes a request with names. The reply is an entry.
    fn request_entry<S: System>(
        &self,
        call: &mut Call<'_, '_>,
        head: impl Fn() -> Head,
        data: &[u8],
    ) -> Reply<Entry<S>> {
        let extent = Extent { data, reply: size_of::<EntryOut>(), ..Extent::default() };
        self.with_space(call, |call| {
            self.request(call, &head, extent, |payload| convert::entry(&payload.all()?))
        })
    }

    /// Returns a handle of the inode that was kept when the inode was closed, if it may be used again.
    fn take_kept(&self, ino: Ino) -> Option<u64> {
        if self.transport.is_stopped() {
            return None;
        }
        let (handle, is_valid) = self.handles.take(ino, self.transport.now())?;
        if !is_valid {
            self.send_release(ino.0, Handle::decode(handle));
        }
        is_valid.then_some(handle)
    }

    /// Makes a request whose reply is only a header.
    fn request_nothing(&self, call: &mut Call<'_, '_>, head: impl FnOnce() -> Head) -> Reply<()> {
        self.request(call, head, Extent::default(), |payload| payload.nothing())
    }
}

fn open_flags(flags: i32) -> u32 {
    (flags & OPEN_FLAGS).cast_unsigned()
}

impl<T: Transport, S: System> FileSystem<S> for FuseClient<T> {
    fn type_name(&self) -> &'static str {
        "virtiofs"
    }

    fn capabilities(&self) -> Capabilities {
        // Some servers refuse `..`, and virtiofsd of QEMU 7.2 returns a second root node for it. A write
        // request does not say whether it appends.
        Capabilities::ATTR_VALIDITY
    }

    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<S>> {
        let head = || Head::new(Opcode::Lookup, entry.parent.0, &()).with_name(entry.name);
        let found = self.with_space(call, |call| {
            self.request(call, head, Extent::reply(size_of::<EntryOut>()), |payload| {
                convert::lookup(&payload.all()?)
            })
        });
        if let Poll::Ready(Ok(Lookup::Found(entry))) = &found {
            self.handles.note_validity(entry.attr.validity);
        }
        found
    }

    fn forget(&self, ino: Ino, references: u64) {
        self.send_forget(ino.0, references);
    }

    fn getattr(&self, call: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        let head = || Head::new(Opcode::Getattr, ino.0, &GetattrIn::default());
        self.request(call, head, Extent::reply(size_of::<AttrOut>()), |payload| {
            convert::attributes(ino, &payload.all()?)
        })
    }

    fn setattr(&self, call: &mut Call<'_, '_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        let head = || Head::new(Opcode::Setattr, ino.0, &convert::changes(changes));
        self.with_space(call, |call| {
            self.request(call, head, Extent::reply(size_of::<AttrOut>()), |payload| {
                convert::attributes(ino, &payload.all()?)
            })
        })
    }

    fn readlink(&self, call: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        if call.ticket.is_none() {
            ready!(self.submit_sized(call, MAX_TARGET.min(self.sizes.read), |size| {
                let extent = Extent { reply_data: size, state: size as u64, ..Extent::default() };
                (Head::new(Opcode::Readlink, ino.0, &()), extent)
            }))?;
        }
        self.take(call, |payload, _| {
            let start = target.len();
            payload?.extend(target)?;
            let text = target.get(start..).unwrap_or_default();
            if text.is_empty() || text.contains(&0) { Err(Failure::Invalid) } else { Ok(()) }
        })
    }

    fn create(
        &self,
        call: &mut Call<'_, '_>,
        entry: Name<'_>,
        permissions: u32,
        flags: i32,
    ) -> Reply<(Entry<S>, u64)> {
        let head = || {
            let flags = open_flags(flags) | (O_CREAT | O_EXCL).cast_unsigned();
            let body = CreateIn { flags, mode: S_IFREG | permissions, ..CreateIn::default() };
            Head::new(Opcode::Create, entry.parent.0, &body).with_name(entry.name)
        };
        let extent = Extent::reply(size_of::<EntryOut>() + size_of::<OpenOut>());
        let parse = |payload: &Payload<'_, T::Reply>| {
            if payload.size != extent.reply {
                return Err(Failure::Invalid);
            }
            let entry = convert::entry(&payload.at(0)?)?;
            let opened: OpenOut = payload.at(size_of::<EntryOut>())?;
            Ok((entry, Handle::new(&opened, false, false).encode()?))
        };
        self.with_space(call, |call| self.request(call, head, extent, parse))
    }

    fn mkdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>, permissions: u32) -> Reply<Entry<S>> {
        let body = MkdirIn { mode: permissions, ..MkdirIn::default() };
        let head = || Head::new(Opcode::Mkdir, entry.parent.0, &body).with_name(entry.name);
        self.request_entry(call, head, &[])
    }

    fn symlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>, target: &[u8]) -> Reply<Entry<S>> {
        let mut data = Vec::new();
        if call.ticket.is_none() {
            data.try_reserve_exact(target.len() + 1).map_err(|_| Errno::ENOMEM)?;
            data.extend_from_slice(target);
            data.push(0);
        }
        let head = || Head::new(Opcode::Symlink, entry.parent.0, &()).with_name(entry.name);
        self.request_entry(call, head, &data)
    }

    fn link(&self, call: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry<S>> {
        let body = LinkIn { oldnodeid: ino.0 };
        let head = || Head::new(Opcode::Link, entry.parent.0, &body).with_name(entry.name);
        self.request_entry(call, head, &[])
    }

    fn unlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        let head = || Head::new(Opcode::Unlink, entry.parent.0, &()).with_name(entry.name);
        self.request_nothing(call, head)
    }

    fn rmdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        let head = || Head::new(Opcode::Rmdir, entry.parent.0, &()).with_name(entry.name);
        self.request_nothing(call, head)
    }

    fn rename(&self, call: &mut Call<'_, '_>, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Reply<()> {
        let (node, newdir) = (from.parent.0, to.parent.0);
        let head = || {
            let head = if flags.is_empty() {
                Head::new(Opcode::Rename, node, &RenameIn { newdir })
            } else {
                let body = Rename2In { newdir, flags: flags.bits(), padding: 0 };
                Head::new(Opcode::Rename2, node, &body)
            };
            head.with_name(from.name).with_name(to.name)
        };
        self.with_space(call, |call| self.request_nothing(call, head))
    }

    fn open(&self, call: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        let is_directory = flags & O_DIRECTORY != 0;
        let is_read_only = open_flags(flags) == 0;
        if is_read_only
            && call.ticket.is_none()
            && let Some(handle) = self.take_kept(ino)
        {
            return Poll::Ready(Ok(Opened::Inode(handle)));
        }
        let opcode = if is_directory { Opcode::Opendir } else { Opcode::Open };
        let body = OpenIn { flags: open_flags(flags), unused: 0 };
        let extent = Extent::reply(size_of::<OpenOut>());
        let head = || Head::new(opcode, ino.0, &body);
        self.with_space(call, |call| {
            self.request(call, head, extent, |payload| {
                let opened: OpenOut = payload.all()?;
                Ok(Opened::Inode(Handle::new(&opened, is_directory, is_read_only).encode()?))
            })
        })
    }

    fn release(&self, ino: Ino, handle: u64) {
        let Handle { number, is_directory, may_keep, .. } = Handle::decode(handle);
        if is_directory {
            self.listing.release(number);
        }
        let now = self.transport.now();
        let released = if may_keep { self.handles.keep((ino, handle), now) } else { Some((ino, handle)) };
        if let Some((ino, handle)) = released {
            self.send_release(ino.0, Handle::decode(handle));
        }
    }

    fn read(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        offset: u64,
        target: &mut dyn ReadTarget,
    ) -> Reply<usize> {
        let fh = Handle::decode(file.handle).file()?;
        if call.ticket.is_none() {
            ready!(self.submit_sized(call, target.room().min(self.sizes.read), |size| {
                let size_in_request = u32::try_from(size).unwrap_or(u32::MAX);
                let body = ReadIn { fh, offset, size: size_in_request, ..ReadIn::default() };
                let extent = Extent { reply_data: size, state: size as u64, ..Extent::default() };
                (Head::new(Opcode::Read, file.ino.0, &body), extent)
            }))?;
        }
        self.take(call, |payload, tag| {
            payload?.append_to(target);
            Ok(to_usize(tag.state))
        })
    }

    fn write(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        self.with_space(call, |call| self.write_file(call, file, position, bytes))
    }

    fn write_back_size(&self, handle: u64, flags: i32) -> usize {
        let may_collect = Handle::decode(handle).may_cache && flags & O_DSYNC == 0;
        if may_collect { self.sizes.write.min(MAX_COLLECTED) } else { 0 }
    }

    fn flush(&self, call: &mut Call<'_, '_>, file: OpenInode) -> Reply<()> {
        let handle = Handle::decode(file.handle);
        let fh = handle.file()?;
        if call.ticket.is_none() && (handle.has_no_flush || self.has_no_flush.load(Relaxed)) {
            return Poll::Ready(Ok(()));
        }
        let body = FlushIn { fh, ..FlushIn::default() };
        match ready!(self.request_nothing(call, || Head::new(Opcode::Flush, file.ino.0, &body))) {
            Err(Errno::ENOSYS) => {
                self.has_no_flush.store(true, Relaxed);
                Poll::Ready(Ok(()))
            }
            result => Poll::Ready(result),
        }
    }

    fn fsync(&self, call: &mut Call<'_, '_>, file: OpenInode, data_only: bool) -> Reply<()> {
        let handle = Handle::decode(file.handle);
        let opcode = if handle.is_directory { Opcode::Fsyncdir } else { Opcode::Fsync };
        let fsync_flags = if data_only { FSYNC_DATASYNC } else { 0 };
        let body = FsyncIn { fh: handle.number, fsync_flags, padding: 0 };
        self.request_nothing(call, || Head::new(opcode, file.ino.0, &body))
    }

    fn readdir(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        self.read_directory(call, directory, (position, false), &mut |entry, inode: Option<Entry<S>>| {
            if let Some(inode) = inode {
                self.send_forget(inode.attr.ino.0, 1);
            }
            entries(entry)
        })
    }

    fn readdir_plus(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut EntriesPlus<'_, S>,
    ) -> Reply<()> {
        self.read_directory(call, directory, (position, self.listing.has_plus()), entries)
    }

    fn statfs(&self, call: &mut Call<'_, '_>) -> Reply<StatFs> {
        let head = || Head::new(Opcode::Statfs, ROOT_NODE, &());
        self.request(call, head, Extent::reply(size_of::<StatfsOut>()), |payload| {
            Ok(convert::usage(&payload.all()?))
        })
    }
}
