//! Directory records: the payload of a reply to `Readdir` and `Readdirplus`.
//!
//! A record is a [`Dirent`], then the name without a NUL, then zeros up to a multiple of 8 bytes. In a reply
//! to `Readdirplus`, an [`EntryOut`] precedes the [`Dirent`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::MAX_NAME;
use crate::reply::EntryOut;

/// Fixed part of a record, before the name (`struct fuse_dirent`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Dirent {
    /// Inode number that programs see.
    pub ino: u64,
    /// Offset at which the next entry is read.
    pub off: u64,
    /// Size of the name in bytes.
    pub namelen: u32,
    /// Type: the upper bits of `st_mode`, shifted right by 12 (`DT_` of readdir(3)).
    pub kind: u32,
}

const _: () = assert!(size_of::<Dirent>() == 24);

/// Size in bytes of a record with a name of this size.
#[must_use]
pub fn record_size(namelen: usize, is_plus: bool) -> usize {
    let entry = if is_plus { size_of::<EntryOut>() } else { 0 };
    (entry + size_of::<Dirent>() + namelen).next_multiple_of(8)
}

/// Writes a record to the beginning of `buffer`, with `entry` for `Readdirplus`. Ignores `namelen` of
/// `dirent`. Returns the size of the record. `None`: it does not fit, and nothing is written.
pub fn write_record(
    buffer: &mut [u8],
    entry: Option<&EntryOut>,
    dirent: Dirent,
    name: &[u8],
) -> Option<usize> {
    let dirent = Dirent { namelen: u32::try_from(name.len()).ok()?, ..dirent };
    let record = buffer.get_mut(..record_size(name.len(), entry.is_some()))?;
    let size = record.len();
    let parts = [entry.map_or(&[][..], EntryOut::as_bytes), dirent.as_bytes(), name];
    let rest = parts.into_iter().fold(record, |record, part| {
        let (start, rest) = record.split_at_mut(part.len());
        start.copy_from_slice(part);
        rest
    });
    rest.fill(0);
    Some(size)
}

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Node and attributes, in replies to `Readdirplus`.
    pub entry: Option<EntryOut>,
    /// Number, offset and type.
    pub dirent: Dirent,
    /// Name, of at least one byte and at most [`MAX_NAME`], without slash and NUL. It may be `.` or `..`.
    pub name: &'a [u8],
}

/// The records of a reply. They end at the first invalid record: one that is truncated, or has an invalid
/// name.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    is_plus: bool,
}

impl<'a> Records<'a> {
    /// Iterates over the records in `bytes`, the payload of a reply to `Readdirplus` (`is_plus`) or
    /// `Readdir`.
    #[must_use]
    pub fn new(bytes: &'a [u8], is_plus: bool) -> Self {
        Self { bytes, is_plus }
    }

    /// Bytes that have not been parsed. After the last record there are none, unless the reply is invalid.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (entry, bytes) = if self.is_plus {
            let (entry, bytes) = EntryOut::read_from_prefix(self.bytes).ok()?;
            (Some(entry), bytes)
        } else {
            (None, self.bytes)
        };
        let (dirent, bytes) = Dirent::read_from_prefix(bytes).ok()?;
        let namelen = usize::try_from(dirent.namelen).ok().filter(|&length| length <= MAX_NAME)?;
        let name = bytes.get(..namelen).filter(|name| is_valid(name))?;
        // The padding of the last record may be missing.
        let size = record_size(namelen, self.is_plus).min(self.bytes.len());
        self.bytes = self.bytes.get(size..)?;
        Some(Record { entry, dirent, name })
    }
}

fn is_valid(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|&byte| byte == 0 || byte == b'/')
}

#[cfg(test)]
mod tests;
