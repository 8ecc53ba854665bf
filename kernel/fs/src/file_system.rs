//! The interface of file systems.
//!
//! It is modelled on FUSE's low-level interface: a request names inodes by number, and borrows names and
//! buffers for the duration of the call. The file system keeps no reference to memory of the caller. So three
//! kinds of file system can implement it: those of this crate, a client of a server outside of the machine,
//! and a new instance that takes over the inode numbers of a running file system.
//!
//! A request is a poll function: it returns [`Poll::Pending`] while the reply is outstanding, and the caller
//! then calls the function again with the same arguments. The methods with `try_` or `_path` in their names
//! are fast paths: they never wait. If the file system cannot serve the call at once, a fast path fails
//! without an effect, and the caller makes the general request.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::future::poll_fn;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use core::task::{Context, Poll};

use hermit_abi::file_properties;
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};

use crate::{Attr, Contents, DirEntry, Entry, FoundInode, Ino, Lookup, SetAttr, StatFs, System};

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

/// Result of opening an inode.
#[derive(Debug)]
pub enum Opened<S: System> {
    /// A file or directory, with the number that the file system gives to this opening (the `fh` of FUSE).
    Inode(u64),
    /// A regular file in memory. The caller reads and writes its contents without requests. It is not
    /// [released](FileSystem::release).
    Memory(Arc<Contents<S>>),
    /// A device or another object. It implements reads, writes and so on itself.
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

/// An inode that a path leads to, with a reference to the inode.
#[derive(Debug)]
pub struct Found<S: System> {
    /// The inode.
    pub inode: FoundInode,
    /// The contents, if it is a regular file in memory.
    pub contents: Option<Arc<Contents<S>>>,
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
/// the attributes, and [`Lookup::Absent`] for the absence of a name. A file system in memory replies at once,
/// so it returns 0.
pub trait FileSystem<S: System>: Debug + Send + Sync {
    /// The name of this type of file system in `/proc/mounts`.
    fn type_name(&self) -> &'static str;

    /// Returns true if a lookup of `..` finds the parent directory. If not, the caller remembers the parent
    /// of each directory and never looks up `..`.
    fn finds_parents(&self) -> bool {
        true
    }

    /// Returns true if replies may be cached. If not, the caller does not look into its caches.
    fn has_validity(&self) -> bool {
        false
    }

    /// Finds an entry. The name may also be `..` if [`Self::finds_parents`] returns true.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`; `ENOENT` for an absent name, instead of [`Lookup::Absent`], if the absence may not be
    /// cached.
    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup>;

    /// Looks up all names of a path, which are separated by slashes, starting at the directory `start`.
    /// Returns the inode of the last name, with a reference to it. Never waits. A regular file or directory
    /// that it finds counts as open, with the handle 0. The caller does not call [`Self::release`] for a
    /// regular file that was opened in this way.
    ///
    /// Returns `None` if the caller must look up the names one by one: if a name is absent, is `.` or `..`,
    /// leads to a symbolic link, or leads to an inode on which something may be mounted. `stops` says which
    /// inodes these are: an inode may be a mount point if the bit of its number modulo 64 is set.
    fn lookup_path(&self, start: Ino, path: &[u8], stops: u64) -> Option<Found<S>> {
        let _ = (start, path, stops);
        None
    }

    /// Stores the attributes of the inode that [`Self::lookup_path`] would find, in the format that programs
    /// see. Takes no reference. `device` is the device ID of the file system.
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

    /// Does [`Self::lookup_path`], or [`Self::create`] if the last name is absent. The returned `bool` is
    /// true if it has created the file. Also returns `None` if the creation fails: the caller then calls
    /// [`Self::create`], which returns the error.
    fn create_path(&self, start: Ino, path: &[u8], stops: u64, permissions: u32) -> Option<(Found<S>, bool)> {
        let _ = (start, path, stops, permissions);
        None
    }

    /// Does [`Self::unlink`] for a path, with the arguments of [`Self::lookup_path`]. Returns `None` for the
    /// same reasons as `lookup_path`, and also if the last name leads to a directory, or to an inode other
    /// than `only`.
    fn unlink_path(&self, start: Ino, path: &[u8], stops: u64, only: Option<FoundInode>) -> Option<()> {
        let _ = (start, path, stops, only);
        None
    }

    /// Drops this many references to an inode. Never waits.
    fn forget(&self, ino: Ino, references: u64);

    /// Drops one reference if that frees no memory, because the caller holds a spinlock. Returns true if it
    /// has dropped the reference. If not, the caller releases the lock and calls [`Self::forget`].
    fn try_forget(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

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

    /// Creates a regular file and opens it, with the `O_` flags of the call. The permission bits are checked
    /// only when the file is opened again later, not by this call.
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
    ) -> Reply<(Entry, Opened<S>)> {
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

    /// Creates another entry for an existing inode (a hard link).
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; `EPERM` for a directory, `ENOENT` for an inode without a name, `EMLINK`.
    fn link(&self, call: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry> {
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
    fn open(&self, call: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened<S>> {
        let _ = (call, ino, flags);
        Poll::Ready(Ok(Opened::Inode(0)))
    }

    /// Returns true if `O_APPEND` may change while an inode is open, because each write request says whether
    /// it appends. If false, the flags of the `open` request decide this for all later writes.
    fn can_change_appending(&self) -> bool {
        true
    }

    /// Closes an opened inode. Not called for a regular file that [`Self::lookup_path`] has opened. Never
    /// waits.
    fn release(&self, ino: Ino, handle: u64) {
        let _ = (ino, handle);
    }

    /// Reads at an offset in bytes and appends the data to `buffer`. Appends nothing at the end of the file.
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
        entries: &mut dyn FnMut(DirEntry<'_>, Option<Entry>) -> ControlFlow<()>,
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
