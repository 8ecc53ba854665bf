//! Fast paths of calls with a path, which need no future.
//!
//! They serve a call if the path, or the directory of its last name, is in the path cache, and if the file
//! system answers [at once](Capabilities::IMMEDIATE). They never wait. If a fast path returns `None`, it has
//! changed no file, and the caller makes the same call as a future, which also decides on the error.

use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::task::Poll;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL, O_TRUNC, file_properties};

use super::node::Node;
use super::open::{NewFile, is_for_writing};
use super::path_cache::PathFrom;
use super::path_names::{Directory, split_last};
use super::{OpenFile, UMASK, Vfs, properties};
use crate::interface::System;
use crate::interface::file_system::{Capabilities, immediately};

impl<S: System> Vfs<S> {
    /// Returns the path cache's number of the directory at which a path begins.
    #[inline]
    fn start_number(&self, path: &[u8]) -> u64 {
        if path.first() == Some(&b'/') { 0 } else { self.current.lock().number }
    }

    /// Returns the node of a path if the path is cached.
    #[inline(always)]
    pub(super) fn try_find(&self, path: &[u8]) -> Option<Arc<Node<S>>> {
        Some(self.paths.find(PathFrom { start: self.start_number(path), path })?.node)
    }

    /// Returns the directory of a path's last name, and that name, if the directory is cached and its file
    /// system is immediate.
    #[inline]
    fn try_parent<'p>(&self, path: &'p [u8]) -> Option<(Arc<Node<S>>, &'p [u8])> {
        let (directory, name) = split_last(path)?;
        let node = match directory {
            Directory::Start => self.current_directory(),
            Directory::Root => Arc::clone(&self.root),
            Directory::Path(path) => self.try_find(path)?,
        };
        (node.is_directory() && node.mount.has(Capabilities::IMMEDIATE)).then_some((node, name))
    }

    /// Does [`Self::open`] for a regular file in memory, or one that does not exist.
    #[inline(always)]
    pub fn try_open(&self, path: &[u8], flags: i32, permissions: u32) -> Option<Arc<OpenFile<S>>> {
        let Some(node) = self.try_find(path) else {
            return if flags & O_CREAT == 0 { None } else { self.try_create(path, flags, permissions) };
        };
        let is_opened_as_it_is = flags & (O_TRUNC | O_DIRECTORY | O_EXCL) == 0;
        let is_permitted = !is_for_writing(flags) || !node.mount.is_read_only;
        if !is_opened_as_it_is || !is_permitted || node.contents().is_none() {
            return None;
        }
        OpenFile::without_handle(node, flags).ok()
    }

    /// Creates a file whose path is not cached.
    #[inline(never)]
    fn try_create(&self, path: &[u8], flags: i32, permissions: u32) -> Option<Arc<OpenFile<S>>> {
        let (parent, name) = self.try_parent(path)?;
        if flags & O_DIRECTORY != 0 || parent.mount.is_read_only {
            return None;
        }
        let new = NewFile::allocate(&parent, flags).ok()?;
        let (permissions, file_system) = (permissions & 0o7777 & !UMASK, parent.file_system());
        let change = self.names.begin_change(&parent, name);
        // The entry is used where the request has stored it, without a copy.
        let mut created = immediately(|call| file_system.create(call, parent.name(name), permissions, flags));
        drop(change);
        match &mut created {
            Poll::Ready(Ok((entry, handle))) => Some(new.fill(&parent, entry, *handle, flags)),
            // The name may exist, whatever the error: a full file system need not look first.
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    /// Does [`Self::metadata`], and stores the result in the format that programs see.
    #[inline(always)]
    pub fn try_properties<'a>(
        &self,
        path: &[u8],
        out: &'a mut MaybeUninit<file_properties>,
    ) -> Option<&'a mut file_properties> {
        let node = self.try_find(path)?;
        if !node.mount.has(Capabilities::IMMEDIATE) {
            return None;
        }
        // The attributes are converted where the request has stored them, without a copy.
        match &immediately(|call| node.file_system().getattr(call, node.ino)) {
            Poll::Ready(Ok(attr)) => Some(out.write(properties(attr, node.mount.device))),
            _ => None,
        }
    }

    /// Does [`Self::remove_file`].
    pub fn try_remove_file(&self, path: &[u8]) -> Option<()> {
        let (parent, name) = self.try_parent(path)?;
        parent.mount.check_writable().ok()?;
        let change = self.names.begin_change(&parent, name);
        let removed = immediately(|call| parent.file_system().unlink(call, parent.name(name)));
        drop(change);
        matches!(removed, Poll::Ready(Ok(()))).then_some(())
    }
}
