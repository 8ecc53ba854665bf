//! Replies, checked.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use hermit_fuse::OutHeader;
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::transport::ServedReply;

/// Size in bytes of a reply's header.
pub(crate) const HEADER: usize = size_of::<OutHeader>();

/// Errors that a server may report (Linux, `fuse_dev_do_write`). Numbers from 512 on are internal to the
/// kernel.
const ERRORS: RangeInclusive<i32> = -511..=0;

/// Size in bytes of the pieces in which data is copied. The memory for a piece is initialised first, and is
/// then still in the cache for the copy.
const PIECE: usize = 1024;

static ZEROS: [u8; PIECE] = [0; PIECE];

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server or the transport reports an error.
    Errno(Errno),
    /// The server sent a reply that the protocol does not allow.
    Invalid,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The reply to a successful request.
#[derive(Debug)]
pub(crate) struct Payload<'a, R> {
    reply: &'a R,
    /// Size in bytes without the header.
    pub(crate) size: usize,
}

/// Checks the header of a reply.
pub(crate) fn check<R: ServedReply>(reply: &R) -> Result<Payload<'_, R>, Failure> {
    let mut header = OutHeader::new_zeroed();
    let size = reply.read(0, header.as_mut_bytes());
    let is_valid = size == HEADER
        && usize::try_from(header.len) == Ok(reply.size())
        && header.unique == reply.tag().unique
        && ERRORS.contains(&header.error)
        && (header.error == 0 || reply.size() == HEADER);
    if !is_valid {
        return Err(Failure::Invalid);
    }
    if header.error != 0 {
        return Err(Errno::from_number(-header.error).into());
    }
    Ok(Payload { reply, size: reply.size() - HEADER })
}

impl<R: ServedReply> Payload<'_, R> {
    /// Reads the only structure of the reply.
    pub(crate) fn all<T: FromBytes + IntoBytes>(&self) -> Result<T, Failure> {
        if self.size == size_of::<T>() { self.at(0) } else { Err(Failure::Invalid) }
    }

    /// Reads the structure at an offset.
    pub(crate) fn at<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T, Failure> {
        let mut value = T::new_zeroed();
        let size = self.reply.read(HEADER + offset, value.as_mut_bytes());
        if size == size_of::<T>() { Ok(value) } else { Err(Failure::Invalid) }
    }

    /// Checks that nothing follows the header.
    pub(crate) const fn nothing(&self) -> Result<(), Failure> {
        if self.size == 0 { Ok(()) } else { Err(Failure::Invalid) }
    }

    /// Appends as much of the data as fits to a buffer. Returns the number of bytes.
    pub(crate) fn append_to(&self, buffer: &mut ReadBuffer<'_>) -> usize {
        let mut offset = 0;
        while offset < self.size && buffer.room() > 0 {
            let piece = PIECE.min(self.size - offset).min(buffer.room());
            let copied = buffer.append_with(|room| {
                let (room, _) = room.split_at_mut(piece);
                let bytes = room.write_copy_of_slice(ZEROS.get(..piece).unwrap_or_default());
                self.reply.read(HEADER + offset, bytes);
                Ok::<_, Errno>(bytes)
            });
            offset += copied.unwrap_or(piece);
        }
        offset
    }

    /// Appends the data to a vector.
    pub(crate) fn extend(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        self.extend_from(0, bytes)
    }

    /// Appends the data from an offset on to a vector.
    pub(crate) fn extend_from(&self, offset: usize, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        let (start, size) = (bytes.len(), self.size.saturating_sub(offset));
        bytes.try_reserve(size).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(start + size, 0);
        self.reply.read(HEADER + offset, bytes.get_mut(start..).unwrap_or_default());
        Ok(())
    }
}
