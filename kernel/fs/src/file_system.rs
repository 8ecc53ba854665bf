//! The interface of file systems.
//!
//! It has the shape of FUSE's low-level interface: a request names inodes by number, and borrows names and
//! buffers for the duration of the call. The file system keeps no reference to memory of the caller. So a
//! file system can be one of this crate, a client of a server outside of the machine, or a successor that
//! takes over a running file system's inode numbers.
//!
//! A request is a poll function: it returns [`Poll::Pending`] while the reply is outstanding, and the caller
//! polls again with the same arguments. The methods with `_now` or `_path` in their names are fast paths.
//! They never wait. Their results say whether the file system could serve the call at once. If not, the
//! caller makes the general request.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use core::future::poll_fn;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use core::task::{Context, Poll};

use hermit_abi::file_properties;
use hermit_interface::Errno;
use hermit_io::{Access, Object, ReadBuffer};

use crate::{Attr, DirEntry, Entry, FoundInode, Ino, Lookup, SetAttr, StatFs};

/// Reply to a request. A pending one has registered the waker of its [`Call`].
pub type Reply<T> = Poll<Result<T, Errno>>;

/// A request that is being made. While its reply is pending, the caller polls again with the same arguments.
#[derive(Debug)]
pub struct Call<'call, 'waker> {
    /// Holds the waker, which a pending request registers.
    pub context: &'call mut Context<'waker>,
    /// Number by which the file system knows the pending request; `None` in the first poll.
    pub ticket: &'call mut Option<NonZeroU64>,
}

/// Polls a request of a file system until it has a reply.
pub(crate) async fn complete<T>(mut request: impl FnMut(&mut Call<'_, '_>) -> Reply<T>) -> Result<T, Errno> {
    let mut ticket = None;
    poll_fn(|context| request(&mut Call { context, ticket: &mut ticket })).await
}

/// Result of opening an inode.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A file or directory, with the file system's number of the opening (the `fh` of FUSE).
    Inode(u64),
    /// A device or another object with operations of its own.
    Object(Arc<dyn Object>),
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

/// An entry of a directory by name.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The directory.
    pub parent: Ino,
    /// A name of 1 to 255 bytes without slash and zero bytes, neither `.` nor `..`.
    pub name: &'a [u8],
}

/// A file system. The caller has checked names, but not the types of inodes: a request for an inode of the
/// wrong type fails with Linux's error. Requests that change something fail with `EROFS` unless a file system
/// implements them.
///
/// Each [`Entry`] that is returned counts as one reference to its inode. The inode exists, even without a
/// name, until as many references are [forgotten](Self::forget). The root exists always.
///
/// Replies say how long the caller may cache them: an [`Entry`] for its name, [`Attr`] for the attributes,
/// and [`Lookup`] for the absence of a name. A file system that replies at once, from memory, says 0.
pub trait FileSystem: Debug + Send + Sync {
    /// The name that `/proc/mounts` has for file systems of this type.
    fn type_name(&self) -> &'static str;

    /// Returns true if a lookup of `..` finds the parent directory. If not, the caller remembers the parent
    /// itself and never asks.
    fn finds_parents(&self) -> bool {
        true
    }

    /// Returns true if replies may be cached. If not, the caller does not look into its caches.
    fn has_validity(&self) -> bool {
        false
    }

    /// Finds an entry. Its name may also be `..`: see [`Self::finds_parents`].
    ///
    /// # Errors
    ///
    /// `ENOENT`, also for an absent name whose absence may not be cached; `ENOTDIR`.
    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup>;

    /// Looks up the names of a path, separated by slashes, each in the directory that the name before it
    /// leads to. Returns the inode of the last name, with a reference to it. It does not wait. A regular file
    /// or directory that it finds is already open: the file system's number of the opening is 0, and no
    /// [`Self::release`] follows for a regular file.
    ///
    /// Returns `None` if the names must be looked up one by one: if one is absent, is `.` or `..`, or leads
    /// to a symbolic link. Also if one leads to an inode on which something may be mounted: `stops` has the
    /// bit of its number modulo 64.
    fn lookup_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<FoundInode> {
        let _ = (start, path, stops);
        None
    }

    /// Stores the attributes of the inode that [`Self::lookup_path`] would find, as programs see them. Takes
    /// no reference. `device` is the device ID of the file system.
    fn properties_path<'a>(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        device: u64,
        out: &'a mut MaybeUninit<file_properties>,
    ) -> Option<&'a mut file_properties> {
        let _ = (start, path, stops, device, out);
        None
    }

    /// Does [`Self::lookup_path`], or [`Self::create`] if the last name is absent. Also returns true if it
    /// has created the file. Returns `None` also if the creation fails: [`Self::create`] then returns the
    /// error.
    fn create_path(
        &self,
        start: Ino,
        path: &[u8],
        stops: u64,
        permissions: u32,
    ) -> Option<(FoundInode, bool)> {
        let _ = (start, path, stops, permissions);
        None
    }

    /// Does [`Self::unlink`] for a path, as [`Self::lookup_path`]. Returns `None` also if the last name does
    /// not exist, leads to a directory, or leads to another inode than `only`.
    fn unlink_path(&self, start: Ino, path: &[u8], stops: u64, only: Option<FoundInode>) -> Option<()> {
        let _ = (start, path, stops, only);
        None
    }

    /// Drops references to an inode. It does not wait.
    fn forget(&self, ino: Ino, references: u64);

    /// Drops one reference as [`Self::forget`], if that frees nothing: the caller holds a spinlock. Returns
    /// true if it has dropped the reference. If not, the caller calls [`Self::forget`] without the lock.
    fn forget_now(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// Attributes of an inode.
    ///
    /// # Errors
    ///
    /// `EIO`.
    fn getattr(&self, call: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr>;

    /// Changes attributes.
    ///
    /// # Errors
    ///
    /// `EISDIR` or `EINVAL` for a size of anything but a regular file, `EFBIG`, `EROFS`.
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

    /// Creates a regular file and opens it, with the `O_` flags of the call. The permission bits apply to
    /// later openings only, not to this one.
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
    ) -> Reply<(Entry, Opened)> {
        let _ = (call, entry, permissions, flags);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn mkdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>, permissions: u32) -> Reply<Entry> {
        let _ = (call, entry, permissions);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    fn symlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>, target: &[u8]) -> Reply<Entry> {
        let _ = (call, entry, target);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Creates another entry for an inode.
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; `EPERM` for a directory, `ENOENT` for an inode without a name, `EMLINK`.
    fn link(&self, call: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry> {
        let _ = (call, ino, entry);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Removes an entry that is no directory.
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

    /// Renames an entry; replaces an existing one in one step.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `EINVAL` if a directory would move into itself; `ENOTDIR`, `EISDIR` or `ENOTEMPTY` if the
    /// existing entry cannot be replaced, `EEXIST` if it must not; `EROFS`, `ENOMEM`.
    fn rename(&self, call: &mut Call<'_, '_>, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Reply<()> {
        let _ = (call, from, to, flags);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Opens an inode, with the `O_` flags of the call: a directory always with `O_DIRECTORY`, anything else
    /// without it.
    ///
    /// # Errors
    ///
    /// `EACCES`, `ENXIO`, `EIO`.
    fn open(&self, call: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        let _ = (call, ino, flags);
        Poll::Ready(Ok(Opened::Inode(0)))
    }

    /// Returns true if `O_APPEND` of an open inode may change, because each write says whether it appends. If
    /// not, the server appends or not as the inode was opened.
    fn can_change_appending(&self) -> bool {
        true
    }

    /// Ends an opening, except that of a regular file by [`Self::lookup_path`]. It does not wait.
    fn release(&self, ino: Ino, handle: u64) {
        let _ = (ino, handle);
    }

    /// Reads from a position; appends nothing at the end of the file.
    ///
    /// # Errors
    ///
    /// `EISDIR`, `EIO`.
    fn read(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Reply<()>;

    /// Does [`Self::read`] to the start of `buffer`, which is not empty. It never waits and takes at most the
    /// time of copying a page: the caller holds a spinlock. Returns the number of bytes, or `None` if the
    /// caller must use [`Self::read`].
    fn read_now(&self, offset: u64, buffer: &mut [MaybeUninit<u8>], ino: Ino) -> Option<usize> {
        // The caller's own arguments come first, so they stay in their registers.
        let _ = (offset, buffer, ino);
        None
    }

    /// Writes at a position; returns the number of bytes, at least one unless `bytes` is empty.
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

    /// Does [`Self::write`] of all bytes, at least one. It never waits and takes at most the time of copying
    /// a page: the caller holds a spinlock. Returns the offset after the bytes. With `None`, nothing is
    /// written, and the caller must use [`Self::write`].
    fn write_now(&self, position: WriteAt, bytes: &[u8], ino: Ino) -> Option<u64> {
        let _ = (position, bytes, ino);
        None
    }

    /// Maximum number of bytes of small writes that the caller may collect for an open file before it writes
    /// them as one. Until then, other machines do not see them. 0 if each write is to be made at once.
    fn write_back_size(&self, handle: u64, flags: i32) -> usize {
        let _ = (handle, flags);
        0
    }

    /// Reports errors of earlier writes, before a descriptor of the file is closed: a server may accept data
    /// before it knows that there is room for them.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`.
    fn flush(&self, call: &mut Call<'_, '_>, file: OpenInode) -> Reply<()> {
        let _ = (call, file);
        Poll::Ready(Ok(()))
    }

    /// Lends a page of a file to a window, a [`PageWindow`](crate::PageWindow). A descriptor then reads and
    /// writes the page through the window, without this trait, as its access mode allows. The caller holds a
    /// spinlock. The file system may ignore the call.
    fn lend_page(&self, ino: Ino, offset: u64, access: Access, window: &'static (dyn Any + Send + Sync)) {
        let _ = (ino, offset, access, window);
    }

    /// Takes the page of a file back from the window that has it. The caller holds a spinlock.
    fn take_back_page(&self, ino: Ino) {
        let _ = ino;
    }

    /// Makes earlier writes durable: contents and attributes, or with `data_only` only the metadata that
    /// reading the contents needs.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`. `ENOSYS` if there is nothing to do, or if the server reports errors in
    /// [`Self::flush`] only.
    fn fsync(&self, call: &mut Call<'_, '_>, file: OpenInode, data_only: bool) -> Reply<()> {
        let _ = (call, file, data_only);
        Poll::Ready(Ok(()))
    }

    /// Calls `entries` with the entries of a directory, beginning at a position (0: the first), until it
    /// breaks. `.` and `..` are not among them. An entry that exists during the whole listing is read once.
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
    /// entries up at little cost, it passes the inode of an entry, with a reference. `entries` takes the
    /// reference over, whether it breaks or not.
    ///
    /// # Errors
    ///
    /// As [`Self::readdir`].
    fn readdir_plus(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>, Option<Entry>) -> ControlFlow<()>,
    ) -> Reply<()> {
        self.readdir(call, directory, position, &mut |entry| entries(entry, None))
    }

    /// Usage of the file system.
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
    /// The file system's number of the opening.
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
    /// Offset in the file after the written bytes. `None`: they were appended, and the file system does not
    /// know where.
    pub end: Option<u64>,
}
