//! Unpacks the initramfs, a tar archive, into a ramfs.

use hermit_interface::Errno;
use hermit_interface::tar::{self, Content, EntryPath, TarError};

use super::RamFs;
use super::inode::Body;
use crate::interface::file_system::{FileSystem, Name};
use crate::interface::{FileType, Ino, System, Time};

/// Permission bits of a directory that has no entry in the archive.
const DIRECTORY: u32 = 0o755;

/// Reason why an archive cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The archive is invalid.
    #[error(transparent)]
    Archive(#[from] TarError),
    /// An entry cannot be added: there is no memory, its parent is not a directory, or it would replace a
    /// directory.
    #[error("cannot add {path}: {error}")]
    Entry {
        /// Path of the entry.
        path: EntryPath<'static>,
        /// Error of the file system.
        error: Errno,
    },
}

impl<S: System> RamFs<S> {
    /// Adds the entries of a tar archive. Contents of files stay in the archive until they are written. A
    /// later entry replaces an earlier one of the same path, and missing parent directories are created.
    /// Devices and FIFOs are left out.
    ///
    /// # Errors
    ///
    /// See [`UnpackError`]. Entries before the failing one stay.
    pub fn unpack(&self, archive: &'static [u8]) -> Result<(), UnpackError> {
        self.for_each_entry(archive, |entry| self.add_entry(entry))?;
        // Times of directories come last, because each new entry changes the time of its directory.
        self.for_each_entry(archive, |entry| match entry.content {
            Content::Directory => self.set_attributes(self.existing(entry.path)?.0, entry),
            _ => Ok(()),
        })
    }

    fn for_each_entry(
        &self,
        archive: &'static [u8],
        mut action: impl FnMut(&tar::Entry<'static>) -> Result<(), Errno>,
    ) -> Result<(), UnpackError> {
        tar::Entries::new(archive).try_for_each(|entry| {
            let entry = entry?;
            action(&entry).map_err(|error| UnpackError::Entry { path: entry.path, error })
        })
    }

    fn add_entry(&self, entry: &tar::Entry<'static>) -> Result<(), Errno> {
        let Some(name) = self.parent_of(entry.path)? else {
            return if entry.content == Content::Directory { Ok(()) } else { Err(Errno::EISDIR) };
        };
        let target = match entry.content {
            Content::HardLink(target) => Some(self.existing(target)?.0),
            _ => None,
        };
        match (self.entry(name), entry.content) {
            (_, Content::Special) | (Ok((_, FileType::Directory)), Content::Directory) => return Ok(()),
            // If GNU tar is given the same path twice, it writes a hard link from the file to itself. Such an
            // entry changes nothing.
            (Ok((ino, _)), _) if target == Some(ino) => return Ok(()),
            (Ok(_), _) => self.remove_file(name)?,
            (Err(_), _) => {}
        }
        let now = S::now();
        let (body, permissions) = match (entry.content, target) {
            (Content::File(contents), _) => {
                (Body::File(self.new_contents(contents, now)?), entry.permissions)
            }
            (Content::Symlink(target), _) => (Body::symlink(target, now)?, 0o777),
            (_, Some(target)) => {
                self.forget(self.add_link(target, name)?.attr.ino, 1);
                return Ok(());
            }
            _ => return self.add_subdirectory(name).map(drop),
        };
        let ino = self.add(name, body, permissions, now)?;
        self.forget(ino, 1);
        self.set_attributes(ino, entry)
    }

    /// Returns the name of an entry in its parent directory. Creates the parent directory if it is missing.
    /// Returns `None` for the root.
    fn parent_of(&self, path: EntryPath<'static>) -> Result<Option<Name<'static>>, Errno> {
        let mut names = path.names();
        let Some(name) = names.next() else { return Ok(None) };
        let mut last = Name { parent: Ino::ROOT, name };
        for name in names {
            let parent = match self.entry(last) {
                Ok((ino, FileType::Directory)) => ino,
                Ok(_) => return Err(Errno::ENOTDIR),
                Err(_) => self.add_subdirectory(last)?,
            };
            last = Name { parent, name };
        }
        Ok(Some(last))
    }

    fn add_subdirectory(&self, name: Name<'_>) -> Result<Ino, Errno> {
        let ino = self.add_directory(name, DIRECTORY)?.attr.ino;
        self.forget(ino, 1);
        Ok(ino)
    }

    /// Returns the inode and type of an existing path.
    fn existing(&self, path: EntryPath<'_>) -> Result<(Ino, FileType), Errno> {
        let root = (Ino::ROOT, FileType::Directory);
        path.names().try_fold(root, |(parent, _), name| self.entry(Name { parent, name }))
    }

    fn set_attributes(&self, ino: Ino, entry: &tar::Entry<'_>) -> Result<(), Errno> {
        let tar::Timestamp { seconds, nanoseconds } = entry.modified;
        let modified = Time { seconds, nanoseconds };
        self.with(ino, |inode| {
            if inode.file_type() != FileType::Symlink {
                inode.permissions = entry.permissions;
            }
            inode.change_times(|times| times.unpacked(modified));
            Ok(())
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
