//! The interface of file systems.
//!
//! It is modelled on FUSE's low-level interface: a request names inodes by number, and borrows names and
//! buffers for the duration of the call. The file system keeps no reference to memory of the caller. So three
//! kinds of file system can implement it: those of this crate, a client of a server outside of the machine,
//! and a new instance that takes over the inode numbers of a running file system.
//!
//! A request is a poll function: it returns [`Poll::Pending`] while the reply is outstanding, and the caller
//! then calls the function again with the same arguments.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::future::poll_fn;
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use core::task::{Context, Poll, Waker};

use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};

use crate::interface::{Attr, DirEntry, Entry, Ino, Lookup, SetAttr, StatFs, System};

/// Reply to a request. A request whose reply is pending has registered the waker of its [`Call`].
pub type Reply<T> = Poll<Result<T, Errno>>;

/// A request in progress: the state that persists from one poll to the next.
#[derive(Debug)]
pub struct Call<'call, 'waker> {
    /// Holds the waker. A pending request registers it.
    pub context: &'call mut Context<'waker>,
    /// Number that the file system gives to the pending request; `None` in the first poll.
    pub ticket: &'call mut Option<NonZeroU64>,
}

/// Polls a request of a file system until it has a reply.
pub(crate) async fn complete<T>(mut request: impl FnMut(&mut Call<'_, '_>) -> Reply<T>) -> Result<T, Errno> {
    let mut ticket = None;
    poll_fn(|context| request(&mut Call { context, ticket: &mut ticket })).await
}

/// Polls a request of a file system once. A request that is pending then is not polled again.
#[inline(always)]
pub(crate) fn immediately<T>(request: impl FnOnce(&mut Call<'_, '_>) -> Reply<T>) -> Reply<T> {
    let mut context = Context::from_waker(Waker::noop());
    request(&mut Call { context: &mut context, ticket: &mut None })
}

/// Function that takes the entries of a listing, with their inodes where the file system passes them.
pub type EntriesPlus<'a, S> = dyn FnMut(DirEntry<'_>, Option<Entry<S>>) -> ControlFlow<()> + 'a;

/// Result of opening an inode.
#[derive(Debug)]
pub enum Opened {
    /// A file or directory, with the number that the file system gives to this opening (the `fh` of FUSE).
    Inode(u64),
    /// A device or another object. It implements reads, writes and so on itself.
    Object(Arc<dyn Object>),
}

/// Takes the bytes of a read: the buffer of a program, or pages that are to be cached.
pub trait ReadTarget {
    /// Number of bytes that can still be appended.
    fn room(&self) -> usize;

    /// Appends as many of `bytes` as there is room and memory for. Returns their number.
    fn append(&mut self, bytes: &[u8]) -> usize;
}

impl ReadTarget for ReadBuffer<'_> {
    fn room(&self) -> usize {
        self.room()
    }

    fn append(&mut self, bytes: &[u8]) -> usize {
        self.append(bytes)
    }
}

bitflags::bitflags! {
    /// Flags of [`FileSystem::rename`], as in renameat2(2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Fail if the new name exists.
        const NO_REPLACE = 1;
        /// Exchange the two entries; both must exist.
        const EXCHANGE = 2;
    }
}

bitflags::bitflags! {
    /// Properties of a file system that its caller must know.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// A lookup of `..` finds the parent directory. Without it, the caller remembers the parent of each
        /// directory and never looks up `..`.
        const FINDS_PARENTS = 1;
        /// `O_APPEND` may change while an inode is open, because each write request says whether it appends.
        /// Without it, the flags of the `open` request decide this for all later writes.
        const APPEND_CHANGES = 2;
        /// Attributes may be cached, and small writes collected, for the times that replies grant. Without
        /// it, the caller has no caches for them.
        const ATTR_VALIDITY = 4;
        /// Requests for names and attributes are never pending, and store no ticket. Then the caller makes
        /// them on fast paths, which never wait.
        const IMMEDIATE = 8;
    }
}

/// Names an entry of a directory in a request.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The directory.
    pub parent: Ino,
    /// A name of 1 to 255 bytes without slash and zero bytes, neither `.` nor `..`.
    pub name: &'a [u8],
}

/// A file system. The caller has checked names, but not the types of inodes: a request for an inode of the
/// wrong type fails with Linux's error. The default implementations of requests that change something fail
/// with `EROFS`.
///
/// Each returned [`Entry`] gives the caller one reference to its inode. The inode exists, even without a
/// name, until the caller has [forgotten](Self::forget) all its references. The root always exists.
///
/// A reply says how long the caller may cache it: [`Entry::validity`] is for the name, [`Attr::validity`] for
/// the attributes, and [`Lookup::Absent`] for the absence of a name.
pub trait FileSystem<S: System>: Debug + Send + Sync {
    /// The name of this type of file system in `/proc/mounts`.
    fn type_name(&self) -> &'static str;

    /// Returns the properties of the file system. They never change.
    fn capabilities(&self) -> Capabilities {
        Capabilities::FINDS_PARENTS | Capabilities::APPEND_CHANGES
    }

    /// Finds an entry. The name may also be `..` with [`Capabilities::FINDS_PARENTS`].
    ///
    /// # Errors
    ///
    /// `ENOTDIR`; `ENOENT` for an absent name, instead of [`Lookup::Absent`], if the absence may not be
    /// cached.
    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<S>>;

    /// Drops this many references to an inode. Never waits.
    fn forget(&self, ino: Ino, references: u64);

    /// Returns the attributes of an inode.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn getattr(&self, call: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr>;

    /// Changes attributes of an inode, and returns all its attributes.
    ///
    /// # Errors
    ///
    /// `EISDIR` or `EINVAL` if the size of an inode other than a regular file is to change; `EFBIG`, `EROFS`.
    fn setattr(&self, call: &mut Call<'_, '_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        let _ = (call, ino, changes);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Appends the target of a symbolic link to `target`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the inode is not a symbolic link.
    fn readlink(&self, call: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        let _ = (call, ino, target);
        Poll::Ready(Err(Errno::EINVAL))
    }

    /// Creates a regular file and opens it, with the `O_` flags of the call. Returns the file and the handle,
    /// as [`Opened::Inode`]. The permission bits are checked only when the file is opened again later, not by
    /// this call.
    ///
    /// # Errors
    ///
    /// `EEXIST`, `ENOENT` in a removed directory, `ENOTDIR`, `ENOSPC`, `ENOMEM`, `EROFS`.
    fn create(
        &self,
        call: &mut Call<'_, '_>,
        entry: Name<'_>,
        permissions: u32,
        flags: i32,
    ) -> Reply<(Entry<S>, u64)> {
        let _ = (call, entry, permissions, flags);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn mkdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>, permissions: u32) -> Reply<Entry<S>> {
        let _ = (call, entry, permissions);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn symlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>, target: &[u8]) -> Reply<Entry<S>> {
        let _ = (call, entry, target);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates another entry for an existing inode (a hard link).
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; `EPERM` for a directory, `ENOENT` for an inode without a name, `EMLINK`.
    fn link(&self, call: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry<S>> {
        let _ = (call, ino, entry);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Removes an entry that is not a directory.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EISDIR`, `ENOTDIR`, `EROFS`.
    fn unlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        let _ = (call, entry);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EROFS`.
    fn rmdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        let _ = (call, entry);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Renames an entry. If the new name exists, it is replaced atomically.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL` if a directory would move into itself; `ENOTDIR`, `EISDIR` or `ENOTEMPTY` if the
    /// existing entry cannot be replaced; `EEXIST` if the flags forbid replacing it; `EROFS`, `ENOMEM`.
    fn rename(&self, call: &mut Call<'_, '_>, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Reply<()> {
        let _ = (call, from, to, flags);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Opens an inode, with the `O_` flags of the call. `O_DIRECTORY` is set if and only if the inode is a
    /// directory.
    ///
    /// # Errors
    ///
    /// `EACCES`, `ENXIO`, `EIO`.
    fn open(&self, call: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        let _ = (call, ino, flags);
        Poll::Ready(Ok(Opened::Inode(0)))
    }

    /// Closes an opened inode. Never waits.
    fn release(&self, ino: Ino, handle: u64) {
        let _ = (ino, handle);
    }

    /// Reads at an offset in bytes and appends the data to `target`, which has room. Returns the number of
    /// bytes that were asked for, which may be less than the target has room for. Fewer than these are
    /// appended only at the end of the file, or if the target does not take them.
    ///
    /// # Errors
    ///
    /// `EISDIR`, `EIO`.
    fn read(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        offset: u64,
        target: &mut dyn ReadTarget,
    ) -> Reply<usize>;

    /// Writes at a position. Returns the number of written bytes, which is at least one unless `bytes` is
    /// empty.
    ///
    /// # Errors
    ///
    /// `EFBIG`, `ENOSPC`, `EIO`, `EROFS`.
    fn write(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        let _ = (call, file, position, bytes);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Returns how many bytes of small writes to an open file the caller may collect before it writes them in
    /// one request. Other machines do not see the collected bytes until then. 0 means that the caller must
    /// not collect writes.
    fn write_back_size(&self, handle: u64, flags: i32) -> usize {
        let _ = (handle, flags);
        0
    }

    /// Reports errors of earlier writes. The caller calls it before it closes a descriptor of the file: a
    /// server may accept data before it knows that there is space for them.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`.
    fn flush(&self, call: &mut Call<'_, '_>, file: OpenInode) -> Reply<()> {
        let _ = (call, file);
        Poll::Ready(Ok(()))
    }

    /// Makes earlier writes durable: the contents and the attributes. With `data_only`, of the attributes
    /// only those that are needed to read the contents.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`. `ENOSYS` if there is nothing to do, or if the server reports errors in
    /// [`Self::flush`] only.
    fn fsync(&self, call: &mut Call<'_, '_>, file: OpenInode, data_only: bool) -> Reply<()> {
        let _ = (call, file, data_only);
        Poll::Ready(Ok(()))
    }

    /// Calls `entries` with each entry of a directory, starting at a position (0 is the first entry), until
    /// `entries` returns `Break`. `.` and `..` are left out. An entry that exists during the whole listing is
    /// passed exactly once.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `EIO`.
    fn readdir(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()>;

    /// Does [`Self::readdir`] for a caller that is likely to look the entries up. If the file system can look
    /// up an entry at little cost, it passes the inode of the entry, too, with a reference. `entries` takes
    /// over the reference, even if it returns `Break`.
    ///
    /// # Errors
    ///
    /// As [`Self::readdir`].
    fn readdir_plus(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut EntriesPlus<'_, S>,
    ) -> Reply<()> {
        self.readdir(call, directory, position, &mut |entry| entries(entry, None))
    }

    /// Returns the usage of the file system.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn statfs(&self, call: &mut Call<'_, '_>) -> Reply<StatFs>;
}

/// An opened inode.
#[derive(Clone, Copy, Debug)]
pub struct OpenInode {
    /// The inode.
    pub ino: Ino,
    /// Number that the file system gave to this opening.
    pub handle: u64,
}

/// Where a write begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAt {
    /// At an offset in bytes.
    Offset(u64),
    /// At the end of the file, in one step with the write (`O_APPEND`).
    End,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of bytes.
    pub count: usize,
    /// Offset in the file after the written bytes. `None` if the bytes were appended and the file system does
    /// not know at which offset.
    pub end: Option<u64>,
}
