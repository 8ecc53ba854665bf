//! Entries of an archive.

use core::fmt;

use super::TarReason;
use super::header::{Header, Timestamp};
use super::pax::Extensions;
use crate::{MAX_NAME, MAX_PATH};

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Path, from the root of the initramfs.
    pub path: EntryPath<'a>,
    /// Permission bits.
    pub permissions: u32,
    /// Time of the last change of the contents.
    pub modified: Timestamp,
    /// Type and contents of the entry.
    pub content: Content<'a>,
}

/// Type and contents of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A regular file with its contents.
    File(&'a [u8]),
    /// A directory.
    Directory,
    /// A symbolic link with its target, which is not empty.
    Symlink(&'a [u8]),
    /// Another name of an earlier entry. The value is the path of the earlier entry.
    HardLink(EntryPath<'a>),
    /// A device or a FIFO.
    Special,
}

/// Path of an entry from the root of the initramfs, in two parts that a slash separates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPath<'a> {
    parts: [&'a [u8]; 2],
}

impl<'a> EntryPath<'a> {
    fn new(parts: [&'a [u8]; 2]) -> Result<Self, TarReason> {
        let path = Self { parts };
        let [prefix, name] = parts;
        let is_valid = |name: &[u8]| name.len() <= MAX_NAME && name != b".." && !name.contains(&0);
        if prefix.len() + name.len() < MAX_PATH && path.names().all(is_valid) {
            Ok(path)
        } else {
            Err(TarReason::Path)
        }
    }

    /// Iterates over the names in the path. The path of the root has no names. A name has 1 to [`MAX_NAME`]
    /// bytes, no slash and no zero byte, and is neither `.` nor `..`.
    pub fn names(self) -> impl Iterator<Item = &'a [u8]> {
        let names = self.parts.into_iter().flat_map(|part| part.split(|byte| *byte == b'/'));
        names.filter(|name| !name.is_empty() && *name != b".")
    }

    fn ends_with_slash(self) -> bool {
        self.parts[1].ends_with(b"/")
    }
}

impl fmt::Display for EntryPath<'_> {
    /// Writes the names, separated by slashes.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in self.names() {
            write!(out, "/{}", name.escape_ascii())?;
        }
        Ok(())
    }
}

/// The entry of a header.
pub(super) fn read<'a>(
    header: &'a Header,
    extensions: &Extensions<'a>,
    data: &'a [u8],
) -> Result<Entry<'a>, TarReason> {
    let path = EntryPath::new(extensions.path.map_or_else(|| header.path(), |path| [&[], path]))?;
    let link_name = extensions.link_name.unwrap_or_else(|| header.link_name());
    let content = match header.type_flag {
        // In formats before POSIX, a directory is a file whose name ends with a slash.
        b'0' | 0 | b'7' if path.ends_with_slash() => Content::Directory,
        b'0' | 0 | b'7' => Content::File(data),
        b'1' => Content::HardLink(EntryPath::new([&[], link_name])?),
        b'2' if link_name.is_empty() || link_name.len() > MAX_PATH || link_name.contains(&0) => {
            return Err(TarReason::Path);
        }
        b'2' => Content::Symlink(link_name),
        b'3' | b'4' | b'6' => Content::Special,
        b'5' => Content::Directory,
        b'S' => return Err(TarReason::Sparse),
        other => return Err(TarReason::Type(other)),
    };
    let modified = extensions.modified.map_or_else(|| header.mtime(), Ok)?;
    Ok(Entry { path, permissions: header.permissions()?, modified, content })
}
