//! Tar archives, read in place: the initramfs, from build tool and hypervisor to
//! kernel.
//!
//! Understood are the formats of POSIX.1-2017 (`pax`, "ustar Interchange Format" and "pax Interchange
//! Format"), the older one without a magic number, and of GNU tar long names and numbers in base 256. No
//! crate without std reads long names, links and pax headers.

mod entry;
mod header;
mod pax;

use core::fmt;

pub use entry::{Content, Entry, EntryPath};
pub use header::Timestamp;
use header::{BLOCK_SIZE, Header};
use pax::Extensions;

/// Magic numbers at the start of compressed files: gzip, bzip2, xz, Zstandard.
const COMPRESSED: [&[u8]; 4] = [b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"];

/// Why an archive cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarError {
    /// Offset of the entry in bytes.
    pub offset: usize,
    /// Reason why the entry is invalid.
    pub reason: TarReason,
}

/// Reason why an entry is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TarReason {
    /// The archive ends in the middle of an entry, or without a block of zeros.
    #[error("the archive is truncated")]
    Truncated,
    /// The checksum is wrong.
    #[error("this is no header of a tar archive")]
    Checksum,
    /// The archive is compressed.
    #[error("the archive is compressed: decompress it first")]
    Compressed,
    /// A number is malformed or too large.
    #[error("a number in the header is invalid")]
    Number,
    /// A record of a pax header is malformed.
    #[error("a record of a pax header is invalid")]
    Record,
    /// The path has `..`, a zero byte, a name of more than [`MAX_NAME`](crate::MAX_NAME) bytes, or more than
    /// [`MAX_PATH`](crate::MAX_PATH) bytes.
    #[error("the path is invalid: it has `..`, a zero byte, or is too long")]
    Path,
    /// The entry has a type that is neither POSIX's nor one of GNU's that are understood.
    #[error("entries of type `{}` are not supported", char::from(*.0))]
    Type(u8),
    /// The file is sparse, in one of GNU's formats.
    #[error("sparse files are not supported: create the archive without --sparse")]
    Sparse,
}

impl fmt::Display for TarError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (at byte {})", self.reason, self.offset)
    }
}

impl core::error::Error for TarError {}

/// Reads all headers of an archive.
///
/// # Errors
///
/// See [`TarError`].
pub fn check(archive: &[u8]) -> Result<(), TarError> {
    Entries::new(archive).try_for_each(|entry| entry.map(drop))
}

/// The entries of an archive in their order, up to the first error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    archive: &'a [u8],
    /// Offset of the next header; `None` after the last entry, and after an error.
    offset: Option<usize>,
}

impl<'a> Entries<'a> {
    /// The entries of an archive.
    #[must_use]
    pub const fn new(archive: &'a [u8]) -> Self {
        Self { archive, offset: Some(0) }
    }

    /// Reads the entry at an offset, with the headers that extend it; `None` at the end of the archive.
    fn read(&mut self, start: usize) -> Result<Option<Entry<'a>>, TarReason> {
        let mut extensions = Extensions::default();
        let mut offset = start;
        loop {
            let Some(header) = self.header(offset)? else {
                self.offset = None;
                return Ok(None);
            };
            let data = self.data(offset + BLOCK_SIZE, extensions.data_size(header)?)?;
            // No overflow: `data` ends within the archive.
            offset += BLOCK_SIZE + data.len().next_multiple_of(BLOCK_SIZE);
            if extensions.extend(header, data)? {
                continue;
            }
            self.offset = Some(offset);
            return entry::read(header, &extensions, data).map(Some);
        }
    }

    /// The header at an offset; `None` for the block of zeros at the end.
    fn header(&self, offset: usize) -> Result<Option<&'a Header>, TarReason> {
        let rest = self.archive.get(offset..).ok_or(TarReason::Truncated)?;
        if offset == 0 && COMPRESSED.iter().any(|magic| rest.starts_with(magic)) {
            return Err(TarReason::Compressed);
        }
        let header = Header::at_start(rest).ok_or(TarReason::Truncated)?;
        if header.is_zero() {
            return Ok(None);
        }
        if header.has_checksum() { Ok(Some(header)) } else { Err(TarReason::Checksum) }
    }

    fn data(&self, start: usize, size: u64) -> Result<&'a [u8], TarReason> {
        let size = usize::try_from(size).map_err(|_| TarReason::Truncated)?;
        let end = start.checked_add(size).ok_or(TarReason::Truncated)?;
        self.archive.get(start..end).ok_or(TarReason::Truncated)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, TarError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset?;
        match self.read(offset) {
            Ok(entry) => entry.map(Ok),
            Err(reason) => {
                self.offset = None;
                Some(Err(TarError { offset, reason }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
