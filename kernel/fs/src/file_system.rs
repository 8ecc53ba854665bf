//! The interface of file systems.
//!
//! It has the shape of FUSE's low-level interface: a request names inodes by number, borrows names and
//! buffers, and leaves nothing of the caller with the file system. So a file system can be one of this crate,
//! a client of a server outside of the machine, or a successor that takes over a running file system's
//! numbers.

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

/// A request that is being made. While its reply is pending, the caller polls with the same arguments again.
#[derive(Debug)]
pub struct Call<'call, 'waker> {
    /// Has the waker for a pending request.
    pub context: &'call mut Context<'waker>,
    /// The file system's number of a pending request; `None` in the first poll.
    pub ticket: &'call mut Option<NonZeroU64>,
}

/// Polls a request of a file system until it has a reply.
pub(crate) async fn complete<T>(mut request: impl FnMut(&mut Call<'_, '_>) -> Reply<T>) -> Result<T, Errno> {
    let mut ticket = None;
    poll_fn(|context| request(&mut Call { context, ticket: &mut ticket })).await
}

/// What opening an inode gives.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A file or directory, with the file system's number for this opening.
    Inode(u64),
    /// A device or another object with operations of its own.
    Object(Arc<dyn Object>),
}

bitflags::bitflags! {
    /// Flags of [`FileSystem::rename`], as of `renameat2`.
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

/// A file system. Names have been checked by the caller, directories and files have not: a request for an
/// inode of another type fails with Linux's error. Requests that change something fail with `EROFS` unless a
/// file system implements them.
///
/// Each [`Entry`] that is returned counts as one reference to its inode, which exists, even without a name,
/// until as many references are [forgotten](Self::forget). The root exists always.
///
/// Answers say how long the caller may keep them: an [`Entry`] for its name, [`Attr`] for the attributes, and
/// [`Lookup`] for the absence of a name. A file system that answers at once, from memory, says 0.
pub trait FileSystem: Debug + Send + Sync {
    /// The name that `/proc/mounts` has for file systems of this type.
    fn type_name(&self) -> &'static str;

    /// Whether a lookup of `..` finds the directory above. Else the caller remembers it, and does not ask.
    fn finds_parents(&self) -> bool {
        true
    }

    /// Whether answers may be kept. Else the caller need not look for kept ones.
    fn has_validity(&self) -> bool {
        false
    }

    /// Finds an entry. Its name may also be `..`: see [`Self::finds_parents`].
    ///
    /// # Errors
    ///
    /// `ENOENT`, as for an absent name that is not to be kept; `ENOTDIR`.
    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup>;

    /// Looks up the names of a path, separated by slashes, each in the directory that the one before it has
    /// led to. Returns what the last name leads to, with a reference to it. It does not wait, and a regular
    /// file or directory that it finds is open with it: the file system's number of the opening is 0. No
    /// [`Self::release`] follows for a regular file.
    ///
    /// `None` if the names are to be looked up one by one: if one is absent, `.`, `..` or a symbolic link, or
    /// leads to an inode whose number modulo 64 is a bit of `stops`, on which something may be mounted.
    fn lookup_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<FoundInode> {
        let _ = (start, path, stops);
        None
    }

    /// Stores the attributes of what [`Self::lookup_path`] finds, without a reference to it, as programs see
    /// them. `device` is the device ID of the file system.
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

    /// [`Self::lookup_path`], or [`Self::create`] if the last name is absent; returns also whether the file
    /// is created. `None` also if that fails: [`Self::create`] has the error.
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

    /// [`Self::unlink`] with a path, as [`Self::lookup_path`]. `None` also if its last name does not exist or
    /// leads to a directory, or to another inode than `only`.
    fn unlink_path(&self, start: Ino, path: &[u8], stops: u64, only: Option<FoundInode>) -> Option<()> {
        let _ = (start, path, stops, only);
        None
    }

    /// Drops references to an inode. It does not wait.
    fn forget(&self, ino: Ino, references: u64);

    /// [`Self::forget`] of one reference, if that frees nothing: it is called under a spinlock. Returns
    /// whether it has dropped the reference; else [`Self::forget`] is to be called without the lock.
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
    /// `EISDIR` or `EINVAL` for a size of what is no regular file, `EFBIG`, `EROFS`.
    fn setattr(&self, call: &mut Call<'_, '_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        let _ = (call, ino, changes);
        Poll::Ready(Err(Errno::EROFS))
    }

    /// Appends the target of a symbolic link to `target`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the inode is none.
    fn readlink(&self, call: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        let _ = (call, ino, target);
        Poll::Ready(Err(Errno::EINVAL))
    }

    /// Creates a regular file and opens it, with the `O_` flags of the call: the permission bits do not
    /// restrict this opening.
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

    /// Whether `O_APPEND` of an open inode may change, because each write says whether it appends. Else the
    /// server keeps what the inode was opened with.
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

    /// [`Self::read`] to the start of `buffer`, which is not empty, without waiting and in the time of a
    /// page's copy: it is called under a spinlock. Returns the number of bytes; `None` if [`Self::read`] is
    /// to be called instead.
    fn read_now(&self, offset: u64, buffer: &mut [MaybeUninit<u8>], ino: Ino) -> Option<usize> {
        // The arguments that the caller has been given come first, so they stay in their registers.
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

    /// [`Self::write`] of all bytes, at least one, without waiting and in the time of a page's copy: it is
    /// called under a spinlock. Returns the offset behind them; `None`, with nothing written, if
    /// [`Self::write`] is to be called instead.
    fn write_now(&self, position: WriteAt, bytes: &[u8], ino: Ino) -> Option<u64> {
        let _ = (position, bytes, ino);
        None
    }

    /// Maximum size in bytes of what the caller may collect of small writes to an open file, before it writes
    /// them as one. Then others see them later. 0 if each is to be written at once.
    fn write_back_size(&self, handle: u64, flags: i32) -> usize {
        let _ = (handle, flags);
        0
    }

    /// Reports an error of what was written, before a descriptor of the file is closed: a server may accept
    /// data before it knows that there is room for them.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`.
    fn flush(&self, call: &mut Call<'_, '_>, file: OpenInode) -> Reply<()> {
        let _ = (call, file);
        Poll::Ready(Ok(()))
    }

    /// Lends the page of an offset of a file to a window, a [`PageWindow`](crate::PageWindow): a descriptor
    /// reads and writes the page through it, without this trait, as its file is opened for. It is called
    /// under a spinlock, and may do nothing.
    fn lend_page(&self, ino: Ino, offset: u64, access: Access, window: &'static (dyn Any + Send + Sync)) {
        let _ = (ino, offset, access, window);
    }

    /// Takes the page of a file back from the window that has it, likewise.
    fn take_back_page(&self, ino: Ino) {
        let _ = ino;
    }

    /// Makes what was written durable: contents and attributes, or with `data_only` what is needed to read
    /// the contents.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`; `ENOSYS` if there is nothing to do before [`Self::flush`], to which errors are left,
    /// or ever.
    fn fsync(&self, call: &mut Call<'_, '_>, file: OpenInode, data_only: bool) -> Reply<()> {
        let _ = (call, file, data_only);
        Poll::Ready(Ok(()))
    }

    /// Calls `entries` with the entries of a directory from a position on (0: the first) until it breaks. `.`
    /// and `..` are not among them. An entry that exists all the time is read once.
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

    /// As [`Self::readdir`], for a caller that is likely to look the entries up: a file system that looks
    /// them up at little cost passes the inode of an entry with a reference, which `entries` takes over,
    /// whether it breaks or not.
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

/// What a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of bytes.
    pub count: usize,
    /// Offset behind them in the file. `None`: they were appended, and the file system cannot say where.
    pub end: Option<u64>,
}
