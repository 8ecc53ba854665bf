//! Handles of opened inodes: the server's number, together with a few bits of the client.

use hermit_fuse::flags::OpenReply;
use hermit_fuse::reply::OpenOut;
use hermit_interface::Errno;

/// The server's number of an opened inode, and the type of the inode. The type is needed because directories
/// and files have different requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) number: u64,
    pub(crate) is_directory: bool,
    /// True if the client may keep data that it has read, and may collect writes.
    pub(crate) may_cache: bool,
    /// True if the server has no errors to report when the file is closed.
    pub(crate) has_no_flush: bool,
    /// True if the handle may be kept when the file is closed, and used for the next open.
    pub(crate) may_keep: bool,
}

impl Handle {
    /// Number of bits of an encoded handle that belong to the client.
    pub(crate) const BITS: u32 = 4;

    /// Reads the handle from a reply.
    pub(crate) fn new(opened: &OpenOut, is_directory: bool, is_read_only: bool) -> Self {
        let flags = OpenReply::from_bits_retain(opened.open_flags);
        let may_cache = !is_directory && !flags.contains(OpenReply::DIRECT_IO);
        Self {
            number: opened.fh,
            is_directory,
            may_cache,
            has_no_flush: flags.contains(OpenReply::NOFLUSH),
            may_keep: may_cache && is_read_only,
        }
    }

    /// Encodes the handle as a number for the caller: the server's number, and [`Self::BITS`] bits.
    ///
    /// # Errors
    ///
    /// `EOVERFLOW` if the server's number uses the highest bits. Known servers do not: their numbers are
    /// addresses or indices.
    pub(crate) fn encode(self) -> Result<u64, Errno> {
        let encoded = self.number.checked_mul(1 << Self::BITS).ok_or(Errno::EOVERFLOW)?;
        let bits = [self.is_directory, self.may_cache, self.has_no_flush, self.may_keep];
        Ok(bits.into_iter().zip(0..).fold(encoded, |encoded, (bit, shift)| encoded | u64::from(bit) << shift))
    }

    pub(crate) const fn decode(encoded: u64) -> Self {
        Self {
            number: encoded >> Self::BITS,
            is_directory: encoded & 1 != 0,
            may_cache: encoded & 2 != 0,
            has_no_flush: encoded & 4 != 0,
            may_keep: encoded & 8 != 0,
        }
    }

    /// Checks that a file was opened.
    pub(crate) const fn file(self) -> Result<u64, Errno> {
        if self.is_directory { Err(Errno::EISDIR) } else { Ok(self.number) }
    }

    /// Checks that a directory was opened.
    pub(crate) const fn directory(self) -> Result<u64, Errno> {
        if self.is_directory { Ok(self.number) } else { Err(Errno::ENOTDIR) }
    }
}
