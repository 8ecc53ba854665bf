//! Calls whose path a file system in memory follows at once, without a task that waits.

use alloc::sync::Arc;
use core::mem::MaybeUninit;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL, O_TRUNC, file_properties};
use hermit_interface::{Errno, MAX_PATH};

use super::mount::{Mount, Node};
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
    fn with_start<T>(&self, path: &[u8], action: impl FnOnce(&Node<S>) -> Option<T>) -> Option<T> {
        if !is_followed(path) {
            return None;
        }
        let current = (path.first() != Some(&b'/')).then(|| self.current_directory());
        // One call of the action, which so becomes part of its caller.
        action(current.as_ref().unwrap_or(&self.root))
    }

    /// Stores what [`Self::metadata`] returns, with symbolic links followed or not, if it needs no waiting. `None`:
    /// [`Self::metadata`] is to be called.
    #[inline]
    pub fn properties_now<'a>(
        &self,
        path: &[u8],
        out: &'a mut MaybeUninit<file_properties>,
    ) -> Option<&'a mut file_properties> {
        self.with_start(path, |start| {
            let (mount, stops) = (&start.mount, start.mount.submount_bits());
            mount.file_system.properties_path(start.ino, path, stops, mount.device, out)
        })
    }

    /// [`Self::open`] if it needs no waiting. `None`: [`Self::open`] is to be called.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[inline]
    pub fn open_now(
        &self,
        path: &[u8],
        flags: i32,
        permissions: u32,
    ) -> Option<Result<Arc<OpenFile<S>>, Errno>> {
        self.with_start(path, |start| {
            if flags & O_CREAT == 0 {
                return open_found(&start.mount, start.lookup_path(path)?, flags);
            }
            if flags & O_DIRECTORY != 0 || start.mount.is_read_only {
                return None;
            }
            create_now(start, path, flags, permissions & 0o7777 & !UMASK)
        })
    }

    /// [`Self::remove_file`] if it needs no waiting. `None`: [`Self::remove_file`] is to be called.
    pub fn remove_file_now(&self, path: &[u8]) -> Option<()> {
        self.with_start(path, |start| {
            start.mount.check_writable().ok()?;
            start.file_system().unlink_path(start.ino, path, start.mount.submount_bits(), None)
        })
    }
}

/// Opens what a path leads to, or creates a file there. If a file that was created cannot be opened, it is removed: a call that
/// fails creates nothing.
fn create_now<S: System>(
    start: &Node<S>,
    path: &[u8],
    flags: i32,
    permissions: u32,
) -> Option<Result<Arc<OpenFile<S>>, Errno>> {
    let stops = start.mount.submount_bits();
    let (found, is_new) = start.file_system().create_path(start.ino, path, stops, permissions)?;
    if !is_new && flags & O_EXCL != 0 {
        drop(Node::new(&start.mount, found));
        return Some(Err(Errno::EEXIST));
    }
    if !is_new {
        return open_found(&start.mount, found, flags);
    }
    let opened = OpenFile::of_found(&start.mount, found, flags);
    Some(opened.inspect_err(|_| {
        start.file_system().unlink_path(start.ino, path, stops, Some(found));
    }))
}

/// Opens what a path leads to, unless it is to be truncated or is no file, or that fails. The reference is taken over.
#[inline(always)]
fn open_found<S: System>(
    mount: &Arc<Mount<S>>,
    found: FoundInode,
    flags: i32,
) -> Option<Result<Arc<OpenFile<S>>, Errno>> {
    if found.file_type == FileType::Regular
        && flags & O_TRUNC == 0
        && check_open(mount, found.file_type, flags).is_ok()
    {
        return Some(OpenFile::of_found(mount, found, flags));
    }
    open_other(Node::new(mount, found), flags)
}

/// [`open_found`] for what is no file, or fails.
#[cold]
#[inline(never)]
fn open_other<S: System>(node: Node<S>, flags: i32) -> Option<Result<Arc<OpenFile<S>>, Errno>> {
    let is_opened = flags & O_TRUNC == 0 && node.is_directory();
    if !is_opened || check_open(&node.mount, node.file_type, flags).is_err() {
        return None;
    }
    let opened = S::arc(node).ok_or(Errno::ENOMEM).and_then(|node| OpenFile::new(node, 0, flags));
    Some(opened)
}
