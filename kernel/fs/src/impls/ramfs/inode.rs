//! An inode of a ramfs: attributes, and a body that depends on the type.

use alloc::boxed::Box;
use alloc::sync::Arc;

use hermit_base::try_alloc::{TryBox, try_to_vec};
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

/// Contents of an inode, by its type. They are on the heap, so that an inode is small: it is moved when it is
/// created and freed.
#[derive(Debug)]
pub(super) enum Body<S: System> {
    File(Arc<Contents<S>>),
    Directory(TryBox<Directory>),
    Symlink(TryBox<Symlink>),
}

/// A symbolic link.
#[derive(Debug)]
pub(super) struct Symlink {
    pub(super) target: Box<[u8]>,
    times: Times,
}

impl<S: System> Body<S> {
    pub(super) const fn file_type(&self) -> FileType {
        match self {
            Self::File(_) => FileType::Regular,
            Self::Directory(_) => FileType::Directory,
            Self::Symlink(_) => FileType::Symlink,
        }
    }

    /// Creates the body of an empty directory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn directory(parent: Ino, now: Time) -> Result<Self, Errno> {
        Ok(Self::Directory(TryBox::try_new(Directory::new(parent, now))?))
    }

    /// Creates the body of a symbolic link.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn symlink(target: &[u8], now: Time) -> Result<Self, Errno> {
        let target = try_to_vec(target)?.into_boxed_slice();
        Ok(Self::Symlink(TryBox::try_new(Symlink { target, times: Times::new(now) })?))
    }

    /// Returns the number of bytes that the body uses of the file system's limit. Contents of a file count
    /// their pages themselves.
    pub(super) fn charged(&self) -> u64 {
        match self {
            Self::File(_) | Self::Directory(_) => 0,
            Self::Symlink(link) => link.target.len() as u64,
        }
    }
}

impl<S: System> Inode<S> {
    /// Creates an inode with one name and one reference.
    pub(super) const fn new(body: Body<S>, permissions: u32) -> Self {
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        Self { permissions, nlink, references: 1, body }
    }

    pub(super) const fn file_type(&self) -> FileType {
        self.body.file_type()
    }

    /// Returns true if the inode has neither a name nor a reference.
    pub(super) const fn is_unused(&self) -> bool {
        self.nlink == 0 && self.references == 0
    }

    /// Changes the times of the inode.
    #[inline]
    pub(super) fn change_times(&mut self, change: impl FnOnce(&mut Times)) {
        match &mut self.body {
            Body::File(contents) => contents.change_times(change),
            Body::Directory(directory) => change(&mut directory.times),
            Body::Symlink(link) => change(&mut link.times),
        }
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
        let of = |file_type: FileType, size, allocated, times: &Times| Attr {
            ino,
            number: ino.0,
            mode: file_type.mode() | self.permissions,
            nlink: self.nlink,
            uid: 0,
            gid: 0,
            size,
            blocks: allocated / 512,
            block_size: BLOCK_SIZE,
            atime: times.atime,
            mtime: times.mtime,
            ctime: times.ctime,
            btime: times.btime,
            validity: 0,
        };
        match &self.body {
            Body::File(contents) => {
                contents.with_attr(|size, allocated, times| of(FileType::Regular, size, allocated, times))
            }
            Body::Directory(directory) => {
                of(FileType::Directory, directory.len() * ENTRY_SIZE, 0, &directory.times)
            }
            Body::Symlink(link) => of(FileType::Symlink, link.target.len() as u64, 0, &link.times),
        }
    }

    /// Returns the contents, if this is a regular file.
    #[inline]
    fn contents(&self) -> Option<Arc<Contents<S>>> {
        match &self.body {
            Body::File(contents) => Some(Arc::clone(contents)),
            Body::Directory(_) | Body::Symlink(_) => None,
        }
    }

    /// Returns the contents of a regular file.
    ///
    /// # Errors
    ///
    /// `EISDIR` for a directory, `EINVAL` for a symbolic link.
    pub(super) fn file(&self) -> Result<Arc<Contents<S>>, Errno> {
        let is_directory = matches!(self.body, Body::Directory(_));
        self.contents().ok_or(if is_directory { Errno::EISDIR } else { Errno::EINVAL })
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`.
    pub(super) fn directory(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            Body::File(_) | Body::Symlink(_) => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the entries of a directory, to which the caller wants to add an entry.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOENT` if the directory was removed.
    pub(super) fn existing_directory(&mut self) -> Result<&mut Directory, Errno> {
        if self.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        self.directory()
    }
}
