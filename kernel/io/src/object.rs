//! What a descriptor can stand for.

use core::any::Any;
use core::fmt::Debug;
use core::task::{Context, Poll};

use hermit_abi::{SEEK_CUR, SEEK_END, SEEK_SET};
use hermit_interface::Errno;

use crate::ReadBuffer;

/// What an object says of itself (`fstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Kind and access, as in `st_mode`.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes per read or write that suit the object.
    pub block_size: u32,
}

/// What an object is ready for (`poll`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read would not wait.
    pub read: bool,
    /// A write would not wait.
    pub write: bool,
    /// The other side writes no more.
    pub read_hang_up: bool,
    /// Nothing can be read or written any more.
    pub hang_up: bool,
    /// An error waits to be told.
    pub error: bool,
}

/// Something behind a descriptor. The defaults are for objects that do not have the operation.
pub trait Object: Any + Debug + Send + Sync {
    /// Reads into `buffer`; nothing added means the end. A pending read has arranged for the waker to be called.
    ///
    /// # Errors
    ///
    /// `EBADF` if the object cannot be read, or what the object's kind of reading may fail with.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let _ = (context, buffer);
        Poll::Ready(Err(Errno::EBADF))
    }

    /// Writes bytes and says how many; at least one unless `bytes` is empty.
    ///
    /// # Errors
    ///
    /// `EBADF` if the object cannot be written, or what the object's kind of writing may fail with.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        let _ = (context, bytes);
        Poll::Ready(Err(Errno::EBADF))
    }

    /// What the object is.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot say.
    fn stat(&self) -> Result<Stat, Errno> {
        Err(Errno::EINVAL)
    }

    /// Moves the position from which is read and written; returns the new one. `whence` is one of the `SEEK_` numbers.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another number or a place before the first byte, `ESPIPE` if there is no position.
    fn seek(&self, offset: i64, whence: i32) -> Result<u64, Errno> {
        let _ = offset;
        Err(if [SEEK_SET, SEEK_CUR, SEEK_END].contains(&whence) { Errno::ESPIPE } else { Errno::EINVAL })
    }

    /// Returns once everything that has been written stays whatever happens.
    ///
    /// # Errors
    ///
    /// `EINVAL` if nothing stays, `EIO`.
    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// What the object is ready for, and arranges for the waker to be called when that may have changed. An object that
    /// cannot tell is said to be ready, as a file is.
    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let _ = context;
        Readiness { read: true, write: true, ..Readiness::default() }
    }

    /// Whether operations fail instead of waiting.
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Says whether operations are to fail instead of waiting.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that cannot be chosen.
    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        let _ = nonblocking;
        Err(Errno::EINVAL)
    }
}
