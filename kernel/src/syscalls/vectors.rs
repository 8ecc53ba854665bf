//! Vectored I/O: the buffers of `readv` and `writev`.
//!
//! A vectored call makes a single operation on the object, because a datagram must be sent or received as a
//! whole. If only one vector has bytes, the operation uses that vector's buffer directly. Otherwise the bytes
//! go through a bounce buffer.

use alloc::vec::Vec;
use core::ptr;

use hermit_abi::{IOV_MAX, iovec};
use hermit_interface::Errno;

use hermit_io::ReadBuffer;

use super::user::{Call, UserBuffer, UserSlice};

/// Maximum size in bytes of a bounce buffer; larger than any datagram.
const MAX_BOUNCE_SIZE: usize = 128 << 10;

/// Vectors to be written from.
#[derive(Debug)]
pub(super) struct UserVectors<'a> {
    call: &'a Call,
    vectors: UserSlice<'a, iovec>,
}

impl<'a> UserVectors<'a> {
    /// # Safety
    ///
    /// `vectors` is null, or valid for reads of `count` vectors that do not change during the call. Each of
    /// them is null, or valid for reads of its length in bytes, which do not change either.
    #[inline]
    pub(super) const unsafe fn new(call: &'a Call, vectors: *const iovec, count: usize) -> Self {
        // SAFETY: the requirement on the vectors themselves is the same.
        Self { call, vectors: unsafe { UserSlice::new(call, vectors, count) } }
    }

    /// Returns the bytes of one of the vectors.
    fn bytes(&self, vector: iovec) -> Result<&'a [u8], Errno> {
        // SAFETY: `vector` is one of these, or has no bytes: the contract of `new` makes the same requirement
        // on its bytes.
        unsafe { UserSlice::new(self.call, vector.iov_base.cast_const().cast(), vector.iov_len) }.get()
    }

    /// Calls `write` once, with the bytes of all vectors one after the other.
    pub(super) fn write(&self, write: impl FnOnce(&[u8]) -> Result<usize, Errno>) -> Result<usize, Errno> {
        let vectors = checked(&self.vectors)?;
        let size = total_size(vectors)?;
        if let Some(vector) = single(vectors) {
            return write(self.bytes(vector)?);
        }
        let mut bounce = bounce_buffer(size)?;
        for &vector in vectors {
            let part = self.bytes(vector)?;
            let room = bounce.capacity() - bounce.len();
            bounce.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
        }
        write(&bounce)
    }
}

/// Vectors to be read into.
#[derive(Debug)]
pub(super) struct UserVectorsMut<'a> {
    call: &'a Call,
    vectors: UserSlice<'a, iovec>,
}

impl<'a> UserVectorsMut<'a> {
    /// # Safety
    ///
    /// `vectors` is null, or valid for reads of `count` vectors that do not change during the call. Each of
    /// them is null, or valid for writes of its length in bytes, which no other code accesses.
    #[inline]
    pub(super) const unsafe fn new(call: &'a Call, vectors: *const iovec, count: usize) -> Self {
        // SAFETY: the requirement on the vectors themselves is the same.
        Self { call, vectors: unsafe { UserSlice::new(call, vectors, count) } }
    }

    /// Returns the buffer of one of the vectors. It borrows `self`, so only one buffer exists at a time: the
    /// vectors may overlap.
    fn buffer(&mut self, vector: iovec) -> UserBuffer<'_> {
        // SAFETY: `vector` is one of these, or has no bytes: the contract of `new` makes the same requirement
        // on its bytes. `self` is borrowed, so there is no other reference to them.
        unsafe { UserBuffer::buffer(self.call, vector.iov_base.cast(), vector.iov_len) }
    }

    /// Calls `read` once, and copies the bytes that it has read to the vectors. Fills each vector before the
    /// next one.
    pub(super) fn read(
        mut self,
        read: impl FnOnce(&mut ReadBuffer<'_>) -> Result<(), Errno>,
    ) -> Result<usize, Errno> {
        let vectors = checked(&self.vectors)?;
        let size = total_size(vectors)?;
        if let Some(vector) = single(vectors) {
            let mut buffer = ReadBuffer::new(self.buffer(vector).get()?);
            read(&mut buffer)?;
            return Ok(buffer.len());
        }
        let mut bounce = bounce_buffer(size)?;
        let room = bounce.spare_capacity_mut();
        let start = room.as_ptr();
        let mut buffer = ReadBuffer::new(room.get_mut(..size.min(MAX_BOUNCE_SIZE)).unwrap_or_default());
        read(&mut buffer)?;
        assert!(buffer.starts_at(start), "a read has put another buffer in the place of its own");
        let total = buffer.len();
        // SAFETY: a read buffer counts only bytes that have been written to it, and it begins where the
        // vector's memory does (asserted), which no other buffer can.
        unsafe { bounce.set_len(total) };
        let mut rest = bounce.as_slice();
        for &vector in vectors {
            let mut part = ReadBuffer::new(self.buffer(vector).get()?);
            let count = part.append(rest);
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(total)
    }
}

fn checked<'a>(vectors: &UserSlice<'a, iovec>) -> Result<&'a [iovec], Errno> {
    if vectors.len() > IOV_MAX { Err(Errno::EINVAL) } else { vectors.get() }
}

/// Returns the sum of the vectors' sizes. Fails with `EINVAL` if the sum exceeds `isize::MAX`.
fn total_size(vectors: &[iovec]) -> Result<usize, Errno> {
    let sum = vectors.iter().try_fold(0_usize, |sum, vector| sum.checked_add(vector.iov_len));
    sum.filter(|&sum| isize::try_from(sum).is_ok()).ok_or(Errno::EINVAL)
}

/// Returns the vector that has bytes, if exactly one vector has bytes. Returns a vector without bytes if no
/// vector has any.
fn single(vectors: &[iovec]) -> Option<iovec> {
    let mut filled = vectors.iter().filter(|vector| vector.iov_len > 0);
    match (filled.next(), filled.next()) {
        (Some(single), None) => Some(*single),
        (None, _) => Some(iovec { iov_base: ptr::null_mut(), iov_len: 0 }),
        _ => None,
    }
}

fn bounce_buffer(size: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size.min(MAX_BOUNCE_SIZE)).map_err(|_| Errno::ENOMEM)?;
    Ok(bytes)
}
