//! An inode of a ramfs: attributes, and a body that depends on the type.

use alloc::boxed::Box;
use alloc::sync::Arc;

use hermit_interface::Errno;

use super::directory::Directory;
use crate::interface::contents::{Contents, Times};
use crate::interface::system::BLOCK_SIZE;
use crate::interface::types::FOREVER;
use crate::interface::{Attr, Entry, FileType, Ino, System, Time};

/// Number of bytes that are counted for each name. For the first name, this includes the inode. It is rounded
/// up, so that the ramfs never uses more memory than is counted.
pub(super) const NAME_SIZE: u64 = 512;

/// Size that an entry adds to its directory (`st_size`).
const ENTRY_SIZE: u64 = 20;

/// An inode.
#[derive(Debug)]
pub(super) struct Inode<S: System> {
    pub(super) permissions: u32,
    pub(super) nlink: u32,
    /// Number of references that users of the file system have.
    pub(super) references: u64,
    pub(super) body: Body<S>,
}

/// Contents of an inode, by its type.
#[derive(Debug)]
pub(super) enum Body<S: System> {
    File(Arc<Contents<S>>),
    Directory(Directory, Times),
    Symlink(Box<[u8]>, Times),
}

impl<S: System> Body<S> {
    pub(super) const fn file_type(&self) -> FileType {
        match self {
            Self::File(_) => FileType::Regular,
            Self::Directory(..) => FileType::Directory,
            Self::Symlink(..) => FileType::Symlink,
        }
    }

    /// Returns the number of bytes that the body uses of the file system's limit. Contents of a file count
    /// their pages themselves.
    pub(super) const fn charged(&self) -> u64 {
        match self {
            Self::File(_) | Self::Directory(..) => 0,
            Self::Symlink(target, _) => target.len() as u64,
        }
    }
}

impl<S: System> Inode<S> {
    /// Creates an inode with one name and one reference.
    pub(super) const fn new(body: Body<S>, permissions: u32) -> Self {
        let nlink = if matches!(body, Body::Directory(..)) { 2 } else { 1 };
        Self { permissions, nlink, references: 1, body }
    }

    pub(super) const fn file_type(&self) -> FileType {
        self.body.file_type()
    }

    /// Returns true if the inode has neither a name nor a reference.
    pub(super) const fn is_unused(&self) -> bool {
        self.nlink == 0 && self.references == 0
    }

    /// Returns the size and the allocated space in bytes, and the times.
    #[inline]
    fn sizes_and_times(&self) -> (u64, u64, Times) {
        match &self.body {
            Body::File(contents) => {
                let attr = contents.attr();
                (attr.size, attr.allocated, attr.times)
            }
            Body::Directory(directory, times) => (directory.len() * ENTRY_SIZE, 0, *times),
            Body::Symlink(target, times) => (target.len() as u64, 0, *times),
        }
    }

    /// Changes the times of the inode.
    #[inline]
    pub(super) fn change_times(&mut self, change: impl FnOnce(&mut Times)) {
        match &mut self.body {
            Body::File(contents) => contents.change_times(change),
            Body::Directory(_, times) | Body::Symlink(_, times) => change(times),
        }
    }

    /// Records a change of the entries of this directory.
    #[inline]
    pub(super) fn note_modified(&mut self, now: Time) {
        self.change_times(|times| times.modified(now));
    }

    /// Records a change of the inode, but not of its contents.
    #[inline]
    pub(super) fn note_changed(&mut self, now: Time) {
        self.change_times(|times| times.changed(now));
    }

    /// Returns the inode as an entry. The caller has taken a reference to it.
    #[inline(always)]
    pub(super) fn entry(&self, ino: Ino) -> Entry<S> {
        Entry { attr: self.attr(ino), validity: FOREVER, contents: self.contents() }
    }

    #[inline(always)]
    pub(super) fn attr(&self, ino: Ino) -> Attr {
        let (size, allocated, Times { atime, mtime, ctime, btime, .. }) = self.sizes_and_times();
        Attr {
            ino,
            number: ino.0,
            mode: self.file_type().mode() | self.permissions,
            nlink: self.nlink,
            uid: 0,
            gid: 0,
            size,
            blocks: allocated / 512,
            block_size: BLOCK_SIZE,
            atime,
            mtime,
            ctime,
            btime,
            validity: 0,
        }
    }

    /// Returns the contents, if this is a regular file.
    #[inline]
    fn contents(&self) -> Option<Arc<Contents<S>>> {
        match &self.body {
            Body::File(contents) => Some(Arc::clone(contents)),
            Body::Directory(..) | Body::Symlink(..) => None,
        }
    }

    /// Returns the contents of a regular file.
    ///
    /// # Errors
    ///
    /// `EISDIR` for a directory, `EINVAL` for a symbolic link.
    pub(super) fn file(&self) -> Result<Arc<Contents<S>>, Errno> {
        let is_directory = matches!(self.body, Body::Directory(..));
        self.contents().ok_or(if is_directory { Errno::EISDIR } else { Errno::EINVAL })
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`.
    pub(super) const fn directory(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory, _) => Ok(directory),
            Body::File(_) | Body::Symlink(..) => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the entries of a directory, to which the caller wants to add an entry.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOENT` if the directory was removed.
    pub(super) const fn existing_directory(&mut self) -> Result<&mut Directory, Errno> {
        if self.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        self.directory()
    }
}
