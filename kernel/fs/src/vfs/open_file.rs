//! Open file descriptions (Linux's `struct file`): the objects that file descriptors refer to.
//!
//! An [`OpenFile`] has an inode, an access mode, a position and flags. A call without an offset acquires the
//! position, so only one call at a time uses the position (POSIX.1-2017, 2.9.7). An [`OpenFile`] counts
//! writes, so that `close` asks the file system for errors only if there were writes since the last report.
//!
//! The contents of a file in memory need no requests: an open file reads and writes them itself. The
//! functions with `try_` in their names are fast paths, which never wait and may be called under a spinlock.
//! They also serve reads of cached pages. `data` has the slow paths.

mod data;

use alloc::sync::Arc;
use core::future::poll_fn;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_abi::{O_APPEND, O_WRONLY};
use hermit_interface::Errno;
use hermit_io::{ACCESS_MODE, Access, Object, Positioned, ReadBuffer};

use super::Metadata;
use super::descriptor::DescriptorFile;
use super::locks::{FileLock, Held};
use super::node::Node;
use super::page_cache::CachedOpening;
use super::position::Position;
use super::write_back::Opening;
use crate::interface::file_system::{Capabilities, OpenInode, WriteAt, complete};
use crate::interface::{DirEntry, Entry, FileType, SetAttr, StatFs, System, Transfer};

/// Reference point of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start of the file.
    Start,
    /// The current position.
    Current,
    /// The end of the file.
    End,
}

/// An open file or directory, with a position and flags. Duplicates of a descriptor share it.
#[derive(Debug)]
pub struct OpenFile<S: System> {
    node: Arc<Node<S>>,
    inode: OpenInode,
    /// True if the drop of this open file releases the inode in the file system. False for a file in memory.
    has_handle: bool,
    /// Access mode of the `open` call.
    access_mode: i32,
    /// True if writes append (`O_APPEND`).
    is_appending: AtomicBool,
    /// Number of writes, and the number of the last write whose errors were reported.
    writes: AtomicU64,
    reported: AtomicU64,
    /// The opening in the file system, if writes of this open file are collected. Its drop releases the
    /// inode.
    opening: Option<Arc<Opening<S>>>,
    /// Cached pages of a file on a server; `None` if its data are not to be cached.
    cached: Option<CachedOpening<S>>,
    /// The advisory lock.
    lock: Held,
    position: Position<S>,
}

impl<S: System> OpenFile<S> {
    /// Creates an open file for an inode that the file system has opened. Without memory, it releases the
    /// inode.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(node: Arc<Node<S>>, handle: u64, flags: i32) -> Result<Arc<Self>, Errno> {
        // The inode is released before its last reference is dropped.
        let mut file = Self::without_handle(Arc::clone(&node), flags)
            .inspect_err(|_| node.file_system().release(node.ino, handle))?;
        if let Some(file) = Arc::get_mut(&mut file) {
            file.set_handle(handle, flags);
        }
        Ok(file)
    }

    /// Creates an open file for an inode that the file system need not open: a regular file in memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(super) fn without_handle(node: Arc<Node<S>>, flags: i32) -> Result<Arc<Self>, Errno> {
        let make = || Self {
            inode: OpenInode { ino: node.ino, handle: 0 },
            node,
            has_handle: false,
            access_mode: flags & ACCESS_MODE,
            is_appending: AtomicBool::new(flags & O_APPEND != 0),
            writes: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            opening: None,
            cached: None,
            lock: Held::new(),
            position: Position::new(),
        };
        S::arc_with(make).ok_or(Errno::ENOMEM)
    }

    /// Makes the node of this open file, which nothing else refers to, refer to the inode of an entry in the
    /// directory `parent`.
    pub(super) fn set_entry(&mut self, parent: &Arc<Node<S>>, entry: &mut Entry<S>) {
        self.inode.ino = entry.attr.ino;
        if let Some(node) = Arc::get_mut(&mut self.node) {
            node.set_entry(parent, entry);
        }
    }

    /// Notes the handle that the file system has given to this opening, unless the file is in memory.
    pub(super) fn set_handle(&mut self, handle: u64, flags: i32) {
        let node = &self.node;
        if node.contents().is_some() {
            return;
        }
        self.inode.handle = handle;
        if node.mount.write_back.is_some() && flags & ACCESS_MODE != 0 {
            self.opening = Opening::new(Arc::<Node<S>>::clone(node), self.inode, flags);
        }
        self.has_handle = self.opening.is_none();
        self.cached = self.open_pages();
    }

    /// Opens the cached pages of this file, if its data may be cached.
    fn open_pages(&self) -> Option<CachedOpening<S>> {
        let mount = &self.node.mount;
        let may_cache = self.check_readable().is_ok()
            && self.node.file_type == FileType::Regular
            && mount.file_system.write_back_size(self.inode.handle, 0) > 0;
        if may_cache { mount.pages.as_ref()?.open(mount.key(self.inode.ino)) } else { None }
    }

    pub(super) const fn node(&self) -> &Arc<Node<S>> {
        &self.node
    }

    const fn check_readable(&self) -> Result<(), Errno> {
        if self.access_mode == O_WRONLY { Err(Errno::EBADF) } else { Ok(()) }
    }

    const fn check_writable(&self) -> Result<(), Errno> {
        if self.access_mode == 0 { Err(Errno::EBADF) } else { Ok(()) }
    }

    /// Reads at the position and advances it. Appends nothing to `buffer` at the end of the file.
    ///
    /// # Errors
    ///
    /// `EBADF` without read access, `EISDIR`, `EIO`.
    pub async fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        self.check_readable()?;
        let mut position = self.position.acquire().await?;
        let before = buffer.len();
        let result = self.read_from(position.offset, buffer).await;
        position.offset += (buffer.len() - before) as u64;
        result
    }

    /// Reads at an offset in bytes (`pread`).
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub async fn read_at(&self, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        self.check_readable()?;
        self.read_from(offset, buffer).await
    }

    /// Returns the operations at an offset that the file is open for.
    #[inline]
    fn access(&self) -> Access {
        let writes = self.check_writable().is_ok() && !self.is_appending.load(Relaxed);
        Access { reads: self.check_readable().is_ok(), writes }
    }

    /// Writes at the position, or with `O_APPEND` at the end of the file, and moves the position after the
    /// written bytes. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// `EBADF` without write access, `EINVAL` if the bytes would end beyond the largest offset, `EFBIG`,
    /// `ENOSPC`, `EIO`.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut position = self.position.acquire().await?;
        let start = self.write_position(position.offset);
        check_end(start, bytes)?;
        let written = self.write_from(start, bytes).await?;
        // If the end is not known, the position does not move: every other value would be just as unexpected
        // for the program.
        position.offset = written.end.unwrap_or(position.offset);
        Ok(written.count)
    }

    /// Writes at an offset in bytes (`pwrite`). With `O_APPEND`, it writes at the end of the file instead, as
    /// on Linux. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub async fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.check_writable()?;
        let start = self.write_position(offset);
        check_end(start, bytes)?;
        Ok(self.write_from(start, bytes).await?.count)
    }

    fn write_position(&self, offset: u64) -> WriteAt {
        if self.is_appending.load(Relaxed) { WriteAt::End } else { WriteAt::Offset(offset) }
    }

    /// Moves the position and returns the new one. In a directory, the new position must be 0 or a position
    /// that reading its entries has returned.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a negative position and for the end of a directory, `EIO`.
    pub async fn seek(&self, offset: i64, whence: Whence) -> Result<u64, Errno> {
        let mut position = self.position.acquire().await?;
        let base = match whence {
            // As in Linux's tmpfs: positions in a directory are not numbers of bytes, so a directory has no
            // end position.
            Whence::End if self.node.is_directory() => return Err(Errno::EINVAL),
            Whence::Start => 0,
            Whence::Current => position.offset,
            Whence::End => self.node.attr().await?.size,
        };
        let sought = base.checked_add_signed(offset).filter(|sought| i64::try_from(*sought).is_ok());
        position.offset = sought.ok_or(Errno::EINVAL)?;
        Ok(position.offset)
    }

    /// Returns the metadata of the file (`fstat`).
    ///
    /// # Errors
    ///
    /// `EIO`.
    pub async fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(Metadata { attr: self.node.attr().await?, device: self.node.mount.device })
    }

    /// Sets the size of the file (`ftruncate`).
    ///
    /// # Errors
    ///
    /// `EINVAL` without write access and for a directory, `EFBIG`, `EIO`.
    pub async fn set_size(&self, size: u64) -> Result<(), Errno> {
        if self.check_writable().is_err() || self.node.file_type != FileType::Regular {
            return Err(Errno::EINVAL);
        }
        let handle = Some(self.inode.handle);
        self.set_attributes(&SetAttr { size: Some(size), handle, ..SetAttr::default() }).await
    }

    /// Changes attributes of the file (`fchmod`, `futimens`).
    ///
    /// # Errors
    ///
    /// `EROFS`, `EIO`.
    pub async fn set_attributes(&self, changes: &SetAttr) -> Result<(), Errno> {
        self.node.mount.check_writable()?;
        self.node.set_attr(changes).await
    }

    /// Returns true if [`Self::flush`] may have errors to report.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.writes.load(Relaxed) != self.reported.load(Relaxed)
    }

    /// Reports errors of writes since the last report. `close` calls it before it closes a descriptor.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`.
    pub async fn flush(&self) -> Result<(), Errno> {
        let writes = self.writes.load(Relaxed);
        if writes == self.reported.load(Relaxed) {
            return Ok(());
        }
        self.node.mount.write_out(self.inode.ino).await?;
        let result = complete(|call| self.node.file_system().flush(call, self.inode)).await;
        // Each error is reported only once.
        self.reported.fetch_max(writes, Relaxed);
        self.take_error().and(result)
    }

    /// Fails with the error of a collected write, if there was one.
    fn take_error(&self) -> Result<(), Errno> {
        self.opening.as_ref().map_or(Ok(()), |opening| opening.take_error())
    }

    /// Makes earlier writes durable (`fsync`, or `fdatasync` with `data_only`).
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC`.
    pub async fn sync(&self, data_only: bool) -> Result<(), Errno> {
        // The count is read before the request, because the request need not cover writes that are made
        // during the request.
        let writes = self.writes.load(Relaxed);
        let lost = self.node.mount.write_out(self.inode.ino).await?;
        let result = complete(|call| self.node.file_system().fsync(call, self.inode, data_only)).await;
        // On success, the request has reported the errors of these writes. Otherwise `flush` reports them
        // later.
        if result.is_ok() {
            self.reported.fetch_max(writes, Relaxed);
        }
        self.take_error()?;
        // Collected writes of another opening have failed. They are not durable, so this call fails, too. The
        // other opening also reports the error.
        lost.map_or(Ok(()), Err)?;
        match result {
            // As on Linux: `ENOSYS` means that the file system has nothing to do.
            Err(Errno::ENOSYS) => Ok(()),
            result => result,
        }
    }

    /// Calls `entries` with each entry of the directory, starting at the position, until `entries` returns
    /// `Break`. Moves the position after the last entry that `entries` has accepted.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `EIO`.
    pub async fn read_directory(
        &self,
        mut entries: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        self.read_entries(false, |entry, _| entries(entry)).await
    }

    /// Reads as [`Self::read_directory`]. With `is_plus`, `entries` also gets the inodes that the file system
    /// passes ([`FileSystem::readdir_plus`](crate::FileSystem::readdir_plus)).
    pub(super) async fn read_entries(
        &self,
        is_plus: bool,
        mut entries: impl FnMut(DirEntry<'_>, Option<Entry<S>>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let mut position = self.position.acquire().await?;
        let mut next = position.offset;
        let mut take = |entry: DirEntry<'_>, inode: Option<Entry<S>>| {
            let behind = entry.next;
            entries(entry, inode)?;
            next = behind;
            ControlFlow::Continue(())
        };
        let (start, file_system) = (position.offset, self.node.file_system());
        let result = complete(|call| {
            if is_plus {
                file_system.readdir_plus(call, self.inode, start, &mut take)
            } else {
                file_system.readdir(call, self.inode, start, &mut |entry| take(entry, None))
            }
        })
        .await;
        position.offset = next;
        match result {
            // A server may return `ENOENT` for a removed directory. But a removed directory must read as
            // empty (POSIX.1-2017, readdir).
            Err(Errno::ENOENT) => Ok(()),
            // The entries before the failure are returned; the next call will fail.
            Err(_) if next != start => Ok(()),
            result => result,
        }
    }

    /// Gives an advisory lock to the file in place of its old lock (`flock`). Waits while other open files
    /// hold conflicting locks.
    ///
    /// # Errors
    ///
    /// `EAGAIN` instead of waiting if `is_trying`; `ENOLCK` without memory.
    pub async fn lock(&self, lock: FileLock, is_trying: bool) -> Result<(), Errno> {
        let (locks, ino) = (&self.node.mount.locks, self.inode.ino);
        poll_fn(|context| locks.poll_lock((!is_trying).then_some(&*context), (ino, &self.lock), lock)).await
    }

    /// Removes the file's advisory lock.
    pub fn unlock(&self) {
        self.node.mount.locks.unlock(self.inode.ino, &self.lock);
    }

    /// Returns the usage of the file system (`fstatfs`).
    ///
    /// # Errors
    ///
    /// `EIO`.
    pub async fn usage(&self) -> Result<StatFs, Errno> {
        complete(|call| self.node.file_system().statfs(call)).await
    }
}

/// Checks that the offset at the end of a write fits into `i64` (Linux, `rw_verify_area`).
fn check_end(start: WriteAt, bytes: &[u8]) -> Result<(), Errno> {
    let WriteAt::Offset(offset) = start else { return Ok(()) };
    let end = offset.checked_add(bytes.len() as u64);
    end.and_then(|end| i64::try_from(end).ok()).map(|_| ()).ok_or(Errno::EINVAL)
}

impl<S: System> Positioned for OpenFile<S> {
    fn position(&self) -> u64 {
        self.position.load_exclusive()
    }

    fn set_position(&self, position: u64) {
        self.position.store_exclusive(position);
    }
}

impl<S: System> DescriptorFile<S> for OpenFile<S> {
    fn try_read(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<Transfer<S>> {
        let access = self.access();
        if !access.reads {
            return None;
        }
        let cached = || self.cached.as_ref().map(|cached| cached.contents());
        self.node.contents().map(|contents| &**contents).or_else(cached)?.try_read(offset, buffer, access)
    }

    fn try_write(&self, offset: u64, bytes: &[u8]) -> Option<Transfer<S>> {
        self.check_writable().ok()?;
        self.node.contents()?.try_write(self.write_position(offset), bytes, self.access())
    }
}

/// As an [`Object`], an open file implements only the operations that all descriptors have. For all others,
/// the kernel calls the methods of `OpenFile` directly.
impl<S: System> Object for OpenFile<S> {
    fn status_flags(&self) -> i32 {
        let appending = if self.is_appending.load(Relaxed) { O_APPEND } else { 0 };
        self.access_mode | appending
    }

    fn set_status_flags(&self, flags: i32) -> Result<(), Errno> {
        let is_appending = flags & O_APPEND != 0;
        if is_appending != self.is_appending.load(Relaxed)
            && !self.node.mount.has(Capabilities::APPEND_CHANGES)
        {
            return Err(Errno::EOPNOTSUPP);
        }
        self.is_appending.store(is_appending, Relaxed);
        Ok(())
    }

    fn set_nonblocking(&self, _nonblocking: bool) -> Result<(), Errno> {
        // `O_NONBLOCK` has no effect on files, as on Linux.
        Ok(())
    }
}

impl<S: System> Drop for OpenFile<S> {
    fn drop(&mut self) {
        if self.lock.is_held() {
            self.unlock();
        }
        if self.has_handle {
            self.node.file_system().release(self.inode.ino, self.inode.handle);
        }
    }
}
