//! Fast paths of calls that take a path: a file system in memory follows the whole path at once, so the call
//! needs no asynchronous task.

use alloc::sync::Arc;
use core::mem::MaybeUninit;

use hermit_abi::{O_DIRECTORY, O_EXCL, O_TRUNC, file_properties};
use hermit_interface::{Errno, MAX_PATH};
use hermit_io::ACCESS_MODE;

use super::mount::Node;
use super::open::check_open;
use super::{OpenFile, UMASK, Vfs};
use crate::{FileType, Found, FoundInode, System};

/// Returns true if a fast path may follow a path: it is not empty, not too long, and does not end in a slash.
fn is_followed(path: &[u8]) -> bool {
    path.len() <= MAX_PATH && !matches!(path.last(), None | Some(b'/'))
}

impl<S: System> Vfs<S> {
    /// Calls `action` with the directory at which a path begins.
    #[inline]
    pub fn with_start<T>(&self, path: &[u8], action: impl FnOnce(Start<'_, S>) -> Option<T>) -> Option<T> {
        if !is_followed(path) {
            return None;
        }
        let current = (path.first() != Some(&b'/')).then(|| self.current_directory());
        // `action` is called at only one place, so that the compiler inlines it.
        action(Start(current.as_ref().unwrap_or(&self.root)))
    }

    /// Returns the directory at which an absolute path begins. Returns `None` for a relative path, or if a
    /// call with the path may have to wait.
    #[inline]
    pub fn root_start(&self, path: &[u8]) -> Option<Start<'_, S>> {
        (is_followed(path) && path.first() == Some(&b'/')).then(|| Start(&self.root))
    }

    /// Does [`Self::metadata`] if it need not wait, and stores the result. If it returns `None`, the caller
    /// must use [`Self::metadata`].
    #[inline]
    pub fn try_properties<'a>(
        &self,
        path: &[u8],
        out: &'a mut MaybeUninit<file_properties>,
    ) -> Option<&'a mut file_properties> {
        self.with_start(path, |Start(start)| {
            let (mount, stops) = (&start.mount, start.mount.submount_bits());
            mount.file_system.properties_path(start.ino, path, stops, mount.device, out)
        })
    }
}

/// The directory at which a path begins.
#[derive(Debug)]
pub struct Start<'a, S: System>(&'a Node<S>);

impl<'a, S: System> Start<'a, S> {
    /// Finds the file that [`Vfs::open`] would open without `O_CREAT`, if this need not wait. If it returns
    /// `None`, the caller must use [`Vfs::open`].
    #[inline]
    pub fn try_find(self, path: &'a [u8], flags: i32) -> Option<FoundFile<'a, S>> {
        let Self(start) = self;
        let found = start.lookup_path(path)?;
        let file = FoundFile { start, path, found, flags, is_new: false };
        file.is_openable().then_some(file)
    }

    /// Does [`Vfs::remove_file`] if it need not wait. If it returns `None`, the caller must use
    /// [`Vfs::remove_file`].
    #[inline]
    pub fn try_remove_file(self, path: &[u8]) -> Option<()> {
        let Self(start) = self;
        start.mount.check_writable().ok()?;
        start.file_system().unlink_path(start.ino, path, start.mount.submount_bits(), None)
    }

    /// Finds or creates the file that [`Vfs::open`] would open with `O_CREAT`, if this need not wait. If it
    /// returns `None`, the caller must use [`Vfs::open`].
    ///
    /// # Errors
    ///
    /// `EEXIST`.
    #[inline(always)]
    pub fn try_find_or_create(
        self,
        path: &'a [u8],
        flags: i32,
        permissions: u32,
    ) -> Option<Result<FoundFile<'a, S>, Errno>> {
        let Self(start) = self;
        if flags & O_DIRECTORY != 0 || start.mount.is_read_only {
            return None;
        }
        let (stops, permissions) = (start.mount.submount_bits(), permissions & 0o7777 & !UMASK);
        let (found, is_new) = start.file_system().create_path(start.ino, path, stops, permissions)?;
        let file = FoundFile { start, path, found, flags, is_new };
        if is_new {
            return Some(Ok(file));
        }
        if flags & O_EXCL != 0 {
            drop(Node::new(&start.mount, file.found.inode));
            return Some(Err(Errno::EEXIST));
        }
        file.is_openable().then_some(Ok(file))
    }
}

/// A file or directory at the end of a path, which the caller is about to open. It holds a reference to the
/// inode. The open file takes over this reference.
#[derive(Debug)]
pub struct FoundFile<'a, S: System> {
    start: &'a Node<S>,
    path: &'a [u8],
    found: Found<S>,
    flags: i32,
    /// True if the call has created the file.
    is_new: bool,
}

impl<S: System> FoundFile<'_, S> {
    /// Returns true if the file can be opened without waiting. If not, this method has dropped the reference.
    #[inline(always)]
    fn is_openable(&self) -> bool {
        let (file_type, flags) = (self.found.inode.file_type, self.flags);
        // Opening a regular file for reading is the common case. It is decided without an access to the
        // mount.
        let is_read = flags & (ACCESS_MODE | O_TRUNC | O_DIRECTORY) == 0;
        (is_read && file_type == FileType::Regular) || is_other_openable(self.start, self.found.inode, flags)
    }

    /// Opens the file by using a [retired](OpenFile::try_retire) open file again. This allocates no memory,
    /// so the caller may hold a spinlock. Returns true on success. If not, the caller must use
    /// [`Self::open`].
    #[inline(always)]
    pub fn open_again(&mut self, retired: &mut Arc<OpenFile<S>>) -> bool {
        let Self { start, found, flags, .. } = self;
        found.inode.file_type == FileType::Regular
            && Arc::get_mut(retired).is_some_and(|file| file.reuse(&start.mount, found, *flags))
    }

    /// Opens the file or directory. If that fails, removes the file if the call has created it, since a call
    /// that fails must leave no new file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. Then the reference is dropped.
    pub fn open(self) -> Result<Arc<OpenFile<S>>, Errno> {
        let Self { start, path, found, flags, is_new } = self;
        let inode = found.inode;
        let opened = if inode.file_type == FileType::Regular {
            OpenFile::of_found(&start.mount, found, flags)
        } else {
            open_directory(Node::new(&start.mount, inode), flags)
        };
        if opened.is_err() && is_new {
            start.file_system().unlink_path(start.ino, path, start.mount.submount_bits(), Some(inode));
        }
        opened
    }
}

/// Decides [`FoundFile::is_openable`] in the less common cases: for other inodes than regular files, for
/// writing, and for invalid flags.
#[inline(never)]
fn is_other_openable<S: System>(start: &Node<S>, found: FoundInode, flags: i32) -> bool {
    let is_opened = matches!(found.file_type, FileType::Regular | FileType::Directory)
        && flags & O_TRUNC == 0
        && check_open(&start.mount, found.file_type, flags).is_ok();
    if !is_opened {
        drop(Node::new(&start.mount, found));
    }
    is_opened
}

#[cold]
#[inline(never)]
fn open_directory<S: System>(node: Node<S>, flags: i32) -> Result<Arc<OpenFile<S>>, Errno> {
    S::arc(node).ok_or(Errno::ENOMEM).and_then(|node| OpenFile::new(node, 0, flags))
}
