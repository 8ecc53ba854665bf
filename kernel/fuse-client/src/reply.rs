//! Replies, checked.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use hermit_fs::ReadTarget;
use hermit_fuse::OutHeader;
use hermit_interface::Errno;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::transport::ServedReply;

/// Size in bytes of a reply's header.
pub(crate) const HEADER: usize = size_of::<OutHeader>();

/// Errors that a server may report (Linux, `fuse_dev_do_write`). Numbers from 512 on are internal to the
/// kernel.
const ERRORS: RangeInclusive<i32> = -511..=0;

/// Size in bytes of the pieces in which data is copied: first out of the memory that the server can change,
/// and then, from the processor's cache, to the target.
const PIECE: usize = 1024;

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

    /// Appends as much of the data as the target takes.
    pub(crate) fn append_to(&self, target: &mut dyn ReadTarget) {
        let (mut piece, mut offset) = ([0; PIECE], 0);
        while offset < self.size && target.room() > 0 {
            let (bytes, _) = piece.split_at_mut(PIECE.min(self.size - offset).min(target.room()));
            let size = self.reply.read(HEADER + offset, bytes);
            let bytes = bytes.get(..size).unwrap_or_default();
            if bytes.is_empty() || target.append(bytes) < bytes.len() {
                break;
            }
            offset += size;
        }
    }

    /// Appends the data to a vector.
    pub(crate) fn extend(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        let start = bytes.len();
        bytes.try_reserve(self.size).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(start + self.size, 0);
        self.reply.read(HEADER, bytes.get_mut(start..).unwrap_or_default());
        Ok(())
    }
}
