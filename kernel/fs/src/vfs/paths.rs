//! Calls whose path a file system in memory follows at once, without a task that waits.

use alloc::sync::Arc;
use core::mem::MaybeUninit;

use hermit_abi::{O_DIRECTORY, O_EXCL, O_TRUNC, file_properties};
use hermit_interface::{Errno, MAX_PATH};
use hermit_io::ACCESS_MODE;

use super::mount::Node;
use super::open::check_open;
use super::{OpenFile, UMASK, Vfs};
use crate::{FileType, FoundInode, System};

/// Whether a path may lead to something other than a directory.
fn is_followed(path: &[u8]) -> bool {
    path.len() <= MAX_PATH && !matches!(path.last(), None | Some(b'/'))
}

impl<S: System> Vfs<S> {
    /// Calls `action` with the directory in which a path begins.
    #[inline]
    pub fn with_start<T>(&self, path: &[u8], action: impl FnOnce(Start<'_, S>) -> Option<T>) -> Option<T> {
        if !is_followed(path) {
            return None;
        }
        let current = (path.first() != Some(&b'/')).then(|| self.current_directory());
        // One call of the action, which so becomes part of its caller.
        action(Start(current.as_ref().unwrap_or(&self.root)))
    }

    /// The directory in which an absolute path begins; `None` for another path, or if a call with it may have
    /// to wait.
    #[inline]
    pub fn root_start(&self, path: &[u8]) -> Option<Start<'_, S>> {
        (is_followed(path) && path.first() == Some(&b'/')).then(|| Start(&self.root))
    }

    /// Stores what [`Self::metadata`] returns, with symbolic links followed or not, if it needs no waiting.
    /// `None`: [`Self::metadata`] is to be called.
    #[inline]
    pub fn properties_now<'a>(
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

/// The directory in which a path begins.
#[derive(Debug)]
pub struct Start<'a, S: System>(&'a Node<S>);

impl<'a, S: System> Start<'a, S> {
    /// What [`Vfs::open`] opens without `O_CREAT`, if that needs no waiting. `None`: [`Vfs::open`] is to be
    /// called.
    #[inline]
    pub fn find_now(self, path: &'a [u8], flags: i32) -> Option<FoundFile<'a, S>> {
        let Self(start) = self;
        let found = start.lookup_path(path)?;
        let file = FoundFile { start, path, found, flags, is_new: false };
        file.is_opened_now().then_some(file)
    }

    /// [`Vfs::remove_file`] if it needs no waiting. `None`: [`Vfs::remove_file`] is to be called.
    #[inline]
    pub fn remove_file_now(self, path: &[u8]) -> Option<()> {
        let Self(start) = self;
        start.mount.check_writable().ok()?;
        start.file_system().unlink_path(start.ino, path, start.mount.submount_bits(), None)
    }

    /// What [`Vfs::open`] opens with `O_CREAT`, likewise.
    ///
    /// # Errors
    ///
    /// `EEXIST`.
    #[inline(always)]
    pub fn find_or_create_now(
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
            drop(Node::new(&start.mount, found));
            return Some(Err(Errno::EEXIST));
        }
        file.is_opened_now().then_some(Ok(file))
    }
}

/// A file or directory that a path has led to, and that is to be opened. It has a reference, which the open
/// file takes over.
#[derive(Debug)]
pub struct FoundFile<'a, S: System> {
    start: &'a Node<S>,
    path: &'a [u8],
    found: FoundInode,
    flags: i32,
    /// Whether the call has created it.
    is_new: bool,
}

impl<S: System> FoundFile<'_, S> {
    /// Whether it is opened without waiting. If not, its reference is dropped.
    #[inline(always)]
    fn is_opened_now(&self) -> bool {
        let (file_type, flags) = (self.found.file_type, self.flags);
        // Of most openings, without a look at the mount.
        let is_read = flags & (ACCESS_MODE | O_TRUNC | O_DIRECTORY) == 0;
        (is_read && file_type == FileType::Regular) || is_other_opened_now(self.start, self.found, flags)
    }

    /// Opens a file by an open file that was [retired](OpenFile::retire_now): without memory, for callers
    /// that hold a lock. Returns whether it has; else [`Self::open`] is to be called.
    #[inline(always)]
    pub fn open_again(&self, retired: &mut Arc<OpenFile<S>>) -> bool {
        self.found.file_type == FileType::Regular
            && Arc::get_mut(retired).is_some_and(|file| file.reuse(&self.start.mount, self.found, self.flags))
    }

    /// Opens the file or directory. If that fails, a new file is removed: a call that fails creates nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; then the reference is dropped.
    pub fn open(self) -> Result<Arc<OpenFile<S>>, Errno> {
        let Self { start, path, found, flags, is_new } = self;
        let opened = if found.file_type == FileType::Regular {
            OpenFile::of_found(&start.mount, found, flags)
        } else {
            open_directory(Node::new(&start.mount, found), flags)
        };
        if opened.is_err() && is_new {
            start.file_system().unlink_path(start.ino, path, start.mount.submount_bits(), Some(found));
        }
        opened
    }
}

/// [`FoundFile::is_opened_now`] for what is no file, or is to be written, or fails.
#[inline(never)]
fn is_other_opened_now<S: System>(start: &Node<S>, found: FoundInode, flags: i32) -> bool {
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
