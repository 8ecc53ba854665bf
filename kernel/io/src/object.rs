//! The interface of the objects behind descriptors.

use core::any::Any;
use core::fmt::{self, Debug, Formatter};
use core::task::{Context, Poll};

use hermit_abi::{O_NONBLOCK, O_RDWR, O_WRONLY, SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::{Errno, Readiness};

use crate::{ReadBuffer, Socket};

/// Bits of the access mode among the `O_` flags (`O_ACCMODE`).
pub const ACCESS_MODE: i32 = O_WRONLY | O_RDWR;

/// Metadata of an object (`fstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Kind and access, as in `st_mode`.
    pub mode: u32,
    /// Size in bytes (`st_size`).
    pub size: u64,
    /// Preferred size of a read or write in bytes (`st_blksize`).
    pub block_size: u32,
}

impl Stat {
    /// Metadata of an object that is no file, such as an eventfd on Linux.
    pub(crate) const ANONYMOUS: Self = Self { mode: 0o600, size: 0, block_size: 4096 };

    /// Metadata of a socket.
    pub const SOCKET: Self = Self { mode: 0o14_0777, size: 0, block_size: 4096 };
}

/// An object behind a descriptor. The default implementations are for objects without the operation.
///
/// It has no supertrait `Debug`: the table of methods would bring the functions that format each object into
/// images.
pub trait Object: Any + Send + Sync {
    /// Reads into `buffer`; nothing appended means end of file. A pending read has registered the waker.
    ///
    /// # Errors
    ///
    /// `EBADF` if the object cannot be read, or an error of the object.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let _ = (context, buffer);
        Poll::Ready(Err(Errno::EBADF))
    }

    /// Writes bytes and returns their number; at least one unless `bytes` is empty.
    ///
    /// # Errors
    ///
    /// `EBADF` if the object cannot be written, or an error of the object.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        let _ = (context, bytes);
        Poll::Ready(Err(Errno::EBADF))
    }

    /// Reads at an offset in bytes (`pread`), as [`Self::poll_read`].
    ///
    /// # Errors
    ///
    /// `ESPIPE` if the object has no positions, or those of [`Self::poll_read`].
    fn poll_read_at(
        &self,
        context: &mut Context<'_>,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Poll<Result<(), Errno>> {
        let _ = (context, offset, buffer);
        Poll::Ready(Err(Errno::ESPIPE))
    }

    /// Writes at an offset in bytes (`pwrite`), as [`Self::poll_write`].
    ///
    /// # Errors
    ///
    /// `ESPIPE` if the object has no positions, or those of [`Self::poll_write`].
    fn poll_write_at(
        &self,
        context: &mut Context<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Poll<Result<usize, Errno>> {
        let _ = (context, offset, bytes);
        Poll::Ready(Err(Errno::ESPIPE))
    }

    /// Returns the socket if the object is one.
    fn as_socket(&self) -> Option<&dyn Socket> {
        None
    }

    /// Returns true if a write continues after a part is written, until all bytes are, as a blocking write to
    /// a pipe does on Linux.
    fn writes_all(&self) -> bool {
        false
    }

    /// Metadata of the object.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the object has none.
    fn stat(&self) -> Result<Stat, Errno> {
        Err(Errno::EINVAL)
    }

    /// Moves the file position; returns the new one. `whence` is `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another `whence` or a negative position, `ESPIPE` if the object has no position.
    fn seek(&self, offset: i64, whence: i32) -> Result<u64, Errno> {
        let _ = offset;
        Err(if [SEEK_SET, SEEK_CUR, SEEK_END].contains(&whence) { Errno::ESPIPE } else { Errno::EINVAL })
    }

    /// Flushes: returns once all completed writes are durable (`fsync`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if the object has no durable storage, `EIO`.
    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Readiness of the object (`poll`). Registers the waker for changes. The default, for objects that never
    /// block, is ready for reads and writes, as for a regular file.
    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let _ = context;
        Readiness { read: true, write: true, ..Readiness::default() }
    }

    /// Returns true if the object can be watched by epoll. The default is for objects that never block:
    /// regular files cannot be watched.
    fn is_watchable(&self) -> bool {
        false
    }

    /// Readiness of the object for epoll. Registers the waker for changes, whatever the readiness is: unlike
    /// that of [`Self::poll_ready`], the waker stays registered for longer than the caller waits.
    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.poll_ready(context)
    }

    /// [`Self::watch`] for an exclusive entry (`EPOLLEXCLUSIVE`): a change that is for one task need wake
    /// only one of the wakers that are registered so, and of the calls that wait for the same. The default
    /// wakes all.
    fn watch_exclusive(&self, context: &mut Context<'_>) -> Readiness {
        self.watch(context)
    }

    /// Removes the waker that [`Self::watch`] or [`Self::watch_exclusive`] has registered.
    fn unwatch(&self, context: &Context<'_>) {
        let _ = context;
    }

    /// Status flags (`fcntl` with `F_GETFL`) besides `O_NONBLOCK`: the access mode, and `O_APPEND`.
    fn status_flags(&self) -> i32 {
        O_RDWR
    }

    /// Returns true if operations fail with `EAGAIN` instead of blocking (`O_NONBLOCK`).
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Sets the status flags that can be changed (`fcntl` with `F_SETFL`): `O_NONBLOCK`, and of files
    /// `O_APPEND`.
    ///
    /// # Errors
    ///
    /// As [`Self::set_nonblocking`].
    fn set_status_flags(&self, flags: i32) -> Result<(), Errno> {
        self.set_nonblocking(flags & O_NONBLOCK != 0)
    }

    /// Sets whether operations fail with `EAGAIN` instead of blocking (`O_NONBLOCK`).
    ///
    /// # Errors
    ///
    /// `EINVAL` if the object does not support it.
    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        let _ = nonblocking;
        Err(Errno::EINVAL)
    }
}

impl Debug for dyn Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Object")
    }
}
