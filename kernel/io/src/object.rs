//! The interface of the objects that descriptors refer to.

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
    /// Metadata of an object that is not a file, such as an eventfd. The values are those of Linux.
    pub(crate) const ANONYMOUS: Self = Self { mode: 0o600, size: 0, block_size: 4096 };

    /// Metadata of a socket.
    pub const SOCKET: Self = Self { mode: 0o14_0777, size: 0, block_size: 4096 };
}

/// An object that a descriptor refers to. The default implementations are for objects that do not support the
/// operation.
///
/// `Debug` is not a supertrait, because then the table of methods would bring the formatting functions of
/// every object into the image.
pub trait Object: Any + Send + Sync {
    /// Reads into `buffer`. If nothing was appended, the end of the file is reached. A pending read has
    /// registered the waker.
    ///
    /// # Errors
    ///
    /// `EBADF` if the object cannot be read, or an error of the object.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let _ = (context, buffer);
        Poll::Ready(Err(Errno::EBADF))
    }

    /// Writes bytes. Returns their number, which is at least 1 unless `bytes` is empty.
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
    /// `ESPIPE` if the object has no positions, or an error of [`Self::poll_read`].
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
    /// `ESPIPE` if the object has no positions, or an error of [`Self::poll_write`].
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

    /// Returns true if a blocking write must continue until all bytes are written, as for a pipe on Linux.
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

    /// Moves the file position and returns the new one. `whence` is `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
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

    /// Returns the readiness of the object (`poll`). Registers the waker for changes. The default
    /// implementation is for objects that never block: like a regular file, they are always ready for reads
    /// and writes.
    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let _ = context;
        Readiness { read: true, write: true, ..Readiness::default() }
    }

    /// Returns true if the object can be watched by epoll. The default is for objects that never block:
    /// regular files cannot be watched.
    fn is_watchable(&self) -> bool {
        false
    }

    /// Returns the readiness of the object for epoll. Registers the waker for changes, whatever the readiness
    /// is. Unlike with [`Self::poll_ready`], the waker stays registered after the caller has stopped waiting.
    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.poll_ready(context)
    }

    /// Does [`Self::watch`] for an exclusive entry (`EPOLLEXCLUSIVE`). If a change is useful for only one
    /// task, the object may wake only one of the exclusive wakers and waiting calls. With the default
    /// implementation, all are woken.
    fn watch_exclusive(&self, context: &mut Context<'_>) -> Readiness {
        self.watch(context)
    }

    /// Removes the waker that [`Self::watch`] or [`Self::watch_exclusive`] has registered.
    fn unwatch(&self, context: &Context<'_>) {
        let _ = context;
    }

    /// Returns the status flags (`fcntl` with `F_GETFL`) except `O_NONBLOCK`: the access mode and `O_APPEND`.
    fn status_flags(&self) -> i32 {
        O_RDWR
    }

    /// Returns true if operations fail with `EAGAIN` instead of blocking (`O_NONBLOCK`).
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Sets the status flags that can be changed (`fcntl` with `F_SETFL`): `O_NONBLOCK`, and for files also
    /// `O_APPEND`.
    ///
    /// # Errors
    ///
    /// As [`Self::set_nonblocking`].
    fn set_status_flags(&self, flags: i32) -> Result<(), Errno> {
        self.set_nonblocking(flags & O_NONBLOCK != 0)
    }

    /// Sets `O_NONBLOCK`. If it is set, operations fail with `EAGAIN` instead of blocking.
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
