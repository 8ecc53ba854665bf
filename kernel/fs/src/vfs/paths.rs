//! Calls whose path a file system in memory follows at once, without a task that waits.

use alloc::sync::Arc;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL, O_TRUNC};
use hermit_interface::{Errno, MAX_PATH};

use super::mount::Node;
use super::open::is_for_writing;
use super::{Metadata, OpenFile, UMASK, Vfs};
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
        if path.first() == Some(&b'/') {
            return action(&self.root);
        }
        let current = self.current_directory();
        action(&current)
    }

    /// [`Self::metadata`], with symbolic links followed or not, if it needs no waiting. `None`: [`Self::metadata`] is to be
    /// called.
    #[inline]
    pub fn metadata_now(&self, path: &[u8]) -> Option<Metadata> {
        self.with_start(path, |start| {
            let attr = start.file_system().getattr_path(start.ino, path, start.mount.submount_bits())?;
            Some(Metadata { attr, device: start.mount.device })
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
            let is_exclusive = flags & O_CREAT != 0 && flags & O_EXCL != 0;
            if !is_exclusive && let Some(found) = start.lookup_path(path) {
                return open_found(Node::of_found(&start.mount, found), flags);
            }
            if flags & O_CREAT == 0 || flags & O_DIRECTORY != 0 || start.mount.is_read_only {
                return None;
            }
            let (stops, permissions) = (start.mount.submount_bits(), permissions & 0o7777 & !UMASK);
            let found = start.file_system().create_path(start.ino, path, stops, permissions)?;
            Some(open_created(start, path, found, flags))
        })
    }

    /// [`Self::remove_file`] if it needs no waiting. `None`: [`Self::remove_file`] is to be called.
    pub fn remove_file_now(&self, path: &[u8]) -> Option<()> {
        self.with_start(path, |start| {
            start.mount.check_writable().ok()?;
            start.file_system().unlink_path(start.ino, path, start.mount.submount_bits())
        })
    }
}

/// Opens a file that was created. If that fails, the file is removed: a call that fails creates nothing.
fn open_created<S: System>(
    start: &Node<S>,
    path: &[u8],
    found: FoundInode,
    flags: i32,
) -> Result<Arc<OpenFile<S>>, Errno> {
    let opened = Node::of_found(&start.mount, found).and_then(|node| OpenFile::new(node, 0, flags));
    opened.inspect_err(|_| {
        start.file_system().unlink_path(start.ino, path, start.mount.submount_bits());
    })
}

/// Opens what a path leads to, unless it is to be truncated or cannot be opened so.
fn open_found<S: System>(
    node: Result<Arc<Node<S>>, Errno>,
    flags: i32,
) -> Option<Result<Arc<OpenFile<S>>, Errno>> {
    let node = match node {
        Ok(node) => node,
        Err(error) => return Some(Err(error)),
    };
    let is_opened = match node.file_type {
        _ if flags & O_TRUNC != 0 => false,
        FileType::Regular => flags & O_DIRECTORY == 0 && !(is_for_writing(flags) && node.mount.is_read_only),
        FileType::Directory => !is_for_writing(flags) && flags & O_CREAT == 0,
        _ => false,
    };
    is_opened.then(|| OpenFile::new(node, 0, flags))
}
