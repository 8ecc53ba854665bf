//! Reads and writes between a file and buffers of guest memory, at an offset, without a copy in this process.
#![expect(
    unsafe_code,
    reason = "preadv(2) and pwritev(2) on memory that the guest may modify at the same time"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, iovec};
use vm_memory::VolatileSlice;

/// Maximum number of buffers of one call: Linux's `UIO_MAXIOV`.
pub(super) const MAX_IOVECS: usize = 1024;

/// Reads from `offset` of the file. Returns the number of bytes read. It is less than the size of the buffers
/// at the end of the file.
///
/// # Errors
///
/// The host's error; `EINVAL` for more than [`MAX_IOVECS`] buffers and offsets of 2^63 or more.
pub(super) fn read_at(file: BorrowedFd<'_>, buffers: &[VolatileSlice<'_>], offset: u64) -> io::Result<usize> {
    let guards: Vec<_> = buffers.iter().map(VolatileSlice::ptr_guard_mut).collect();
    let iovecs: Vec<_> =
        guards.iter().map(|guard| iovec { iov_base: guard.as_ptr().cast(), iov_len: guard.len() }).collect();
    let (count, offset) = arguments(&iovecs, offset)?;
    // SAFETY: `iovecs` has `count` elements and lives until the call returns. The kernel writes only to the
    // guest memory that they describe, which `guards` keep mapped. Writes to guest memory race only with the
    // guest and with volatile accesses: vm-memory never creates a reference to it.
    let result = unsafe { libc::preadv(file.as_raw_fd(), iovecs.as_ptr(), count, offset) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Writes to `offset` of the file, or to its end if it is open with `O_APPEND`. Returns the number of bytes
/// written. It is less than the size of the buffers if the host's storage is full.
///
/// # Errors
///
/// The host's error; `EINVAL` for more than [`MAX_IOVECS`] buffers and offsets of 2^63 or more.
pub(super) fn write_at(
    file: BorrowedFd<'_>,
    buffers: &[VolatileSlice<'_>],
    offset: u64,
) -> io::Result<usize> {
    let guards: Vec<_> = buffers.iter().map(VolatileSlice::ptr_guard).collect();
    let iovecs: Vec<_> = guards
        .iter()
        .map(|guard| iovec { iov_base: guard.as_ptr().cast_mut().cast(), iov_len: guard.len() })
        .collect();
    let (count, offset) = arguments(&iovecs, offset)?;
    // SAFETY: `iovecs` has `count` elements and lives until the call returns. pwritev(2) only reads the
    // memory that they describe, so that the casts to `*mut` grant no write access. This memory is guest
    // memory, which `guards` keep mapped.
    let result = unsafe { libc::pwritev(file.as_raw_fd(), iovecs.as_ptr(), count, offset) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn arguments(iovecs: &[iovec], offset: u64) -> io::Result<(c_int, libc::off_t)> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    Ok((c_int::try_from(iovecs.len()).map_err(invalid)?, offset.try_into().map_err(invalid)?))
}
