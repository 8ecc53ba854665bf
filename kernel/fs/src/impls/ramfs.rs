//! A file system in memory.
//!
//! - Each inode has a lock of its own. An inode is found by its number without a lock.
//! - The contents of a regular file are [`Contents`], which open files share. So reads and writes do not use
//!   the inode.
//! - One lock serialises changes of names. While it is held, inodes are locked one at a time. A lookup locks
//!   the directory and then the inode that it finds.
//! - The contents of files of the initramfs stay in the tar archive. Each page is copied when it is first
//!   written.
//! - The memory of an inode is freed when its last name and its last reference are gone, and never under a
//!   lock.

mod directory;
mod initramfs;
mod inode;
mod names;
mod rename;
mod table;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::task::{Context, Poll, ready};

use hermit_base::try_alloc::try_extend;
use hermit_interface::Errno;
use lock_api::Mutex;

use crate::interface::contents::{Contents, PAGE_BYTES, Usage};
use crate::interface::file_system::{
    Call, Capabilities, FileSystem, Name, OpenInode, ReadTarget, RenameFlags, Reply, WriteAt, Written,
};
use crate::interface::system::{BLOCK_SIZE, Lock};
use crate::interface::{Attr, DirEntry, Entry, Ino, Lookup, SetAttr, StatFs, System};
pub use initramfs::UnpackError;
use inode::{Body, Inode, NAME_SIZE};
use table::{LockedSlot, Table};

/// A file system in memory.
#[derive(Debug)]
pub struct RamFs<S: System> {
    // The memory of the fields is freed in the reverse order of its allocation. Then a heap that frees only
    // the last block loses nothing by a mount that fails.
    usage: Arc<Usage>,
    inodes: Table<S, Inode<S>>,
    /// Serialises changes of names.
    names: Lock<S, ()>,
}

impl<S: System> RamFs<S> {
    /// Creates a file system with an empty root directory and a limit of `max_size` bytes for contents, names
    /// and inodes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(max_size: u64) -> Result<Self, Errno> {
        let inodes = Table::new()?;
        let root = inodes.reserve()?;
        let body = Body::directory(root, S::now())?;
        *inodes.lock(root)? = Some(Inode::new(body, 0o755));
        let usage = S::arc(Usage::new(max_size)).ok_or(Errno::ENOMEM)?;
        Ok(Self { usage, inodes, names: Mutex::new(()) })
    }

    /// Calls `action` with an inode while its lock is held.
    #[inline]
    fn with<T>(&self, ino: Ino, action: impl FnOnce(&mut Inode<S>) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut slot = self.inodes.lock(ino)?;
        action(slot.as_mut().ok_or(Errno::ENOENT)?)
    }

    /// Changes an inode. If the inode is unused afterwards, frees it, and also each parent directory to which
    /// the freed directory had the only reference.
    fn update(&self, ino: Ino, action: impl FnOnce(&mut Inode<S>)) {
        let mut next = self.update_one(ino, action);
        while let Some(parent) = next {
            // The subtraction saturates as in `forget`, since a caller may forget the root without having a
            // reference.
            next = self.update_one(parent, |inode| inode.references = inode.references.saturating_sub(1));
        }
    }

    /// Changes an inode, and frees it if it is unused afterwards. Returns the parent directory to which the
    /// freed inode had a reference, if it had one.
    fn update_one(&self, ino: Ino, action: impl FnOnce(&mut Inode<S>)) -> Option<Ino> {
        let mut slot = self.inodes.lock(ino).ok()?;
        let inode = slot.as_mut()?;
        action(inode);
        if !inode.is_unused() {
            return None;
        }
        let parent = inode.directory().ok().filter(|directory| directory.keeps_parent);
        let parent = parent.map(|directory| directory.parent);
        self.free(ino, slot);
        parent
    }

    /// Frees an inode that was found unused, unless another thread frees it first.
    #[cold]
    #[inline(never)]
    fn free_unused(&self, ino: Ino) {
        self.update(ino, |_| {});
    }

    /// Frees an inode if it is unused. The inode must not be a directory, since a directory may have a
    /// reference to its parent.
    fn free_if_unused(&self, ino: Ino, slot: LockedSlot<'_, S, Inode<S>>) {
        if slot.as_ref().is_some_and(Inode::is_unused) {
            self.free(ino, slot);
        }
    }

    /// Frees an inode. Its contents are freed only after its lock is released.
    fn free(&self, ino: Ino, mut slot: LockedSlot<'_, S, Inode<S>>) {
        let inode = slot.take();
        drop(slot);
        let size = inode.as_ref().map_or(0, |inode| NAME_SIZE + inode.body.charged());
        drop(inode);
        self.inodes.release(ino);
        self.usage.release(size);
    }

    /// Changes attributes.
    fn change(&self, context: &Context<'_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        match self.with(ino, |inode| Ok(inode.file().ok()))? {
            Some(contents) => ready!(contents.poll_change(context, changes))?,
            None => self.change_times(ino, changes)?,
        }
        Poll::Ready(self.with(ino, |inode| {
            if let Some(permissions) = changes.permissions {
                inode.permissions = permissions & 0o7777;
            }
            Ok(inode.attr(ino))
        }))
    }

    /// Changes the times of a directory or a symbolic link. Fails if its size is to change.
    fn change_times(&self, ino: Ino, changes: &SetAttr) -> Result<(), Errno> {
        let now = S::now();
        self.with(ino, |inode| {
            if changes.size.is_some() {
                inode.file()?;
            }
            inode.change_times(|times| times.set(changes.atime, changes.mtime, now));
            Ok(())
        })
    }

    /// Returns the contents of a regular file.
    fn contents_of(&self, ino: Ino) -> Result<Arc<Contents<S>>, Errno> {
        self.with(ino, |inode| inode.file())
    }
}

impl<S: System> FileSystem<S> for RamFs<S> {
    fn type_name(&self) -> &'static str {
        "tmpfs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FINDS_PARENTS | Capabilities::APPEND_CHANGES | Capabilities::IMMEDIATE
    }

    fn lookup(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<S>> {
        Poll::Ready(self.find(entry).map(Lookup::Found))
    }

    fn forget(&self, ino: Ino, references: u64) {
        let Ok(mut slot) = self.inodes.lock(ino) else { return };
        let Some(inode) = slot.as_mut() else { return };
        inode.references = inode.references.saturating_sub(references);
        if inode.is_unused() {
            drop(slot);
            self.free_unused(ino);
        }
    }

    fn getattr(&self, _: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        Poll::Ready(self.with(ino, |inode| Ok(inode.attr(ino))))
    }

    fn setattr(&self, call: &mut Call<'_, '_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        self.change(call.context, ino, changes)
    }

    fn readlink(&self, _: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        Poll::Ready(self.with(ino, |inode| {
            let Body::Symlink(link) = &inode.body else { return Err(Errno::EINVAL) };
            Ok(try_extend(target, &link.target)?)
        }))
    }

    fn create(
        &self,
        _: &mut Call<'_, '_>,
        entry: Name<'_>,
        permissions: u32,
        _flags: i32,
    ) -> Reply<(Entry<S>, u64)> {
        Poll::Ready(self.add_file(entry, permissions).map(|entry| (entry, 0)))
    }

    fn mkdir(&self, _: &mut Call<'_, '_>, entry: Name<'_>, permissions: u32) -> Reply<Entry<S>> {
        Poll::Ready(self.add_directory(entry, permissions))
    }

    fn symlink(&self, _: &mut Call<'_, '_>, entry: Name<'_>, target: &[u8]) -> Reply<Entry<S>> {
        Poll::Ready(self.add_symlink(entry, target))
    }

    fn link(&self, _: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry<S>> {
        Poll::Ready(self.add_link(ino, entry))
    }

    fn unlink(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        Poll::Ready(self.remove_file(entry))
    }

    fn rmdir(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        Poll::Ready(self.remove_directory(entry))
    }

    fn rename(&self, _: &mut Call<'_, '_>, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Reply<()> {
        Poll::Ready(self.rename_entry(from, to, flags))
    }

    fn read(
        &self,
        _: &mut Call<'_, '_>,
        file: OpenInode,
        offset: u64,
        target: &mut dyn ReadTarget,
    ) -> Reply<usize> {
        let room = target.room();
        self.contents_of(file.ino)?.read(offset, target);
        Poll::Ready(Ok(room))
    }

    fn write(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        self.contents_of(file.ino)?.poll_write(call.context, position, bytes)
    }

    fn readdir(
        &self,
        _: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        Poll::Ready(self.read_entries(directory.ino, position, entries))
    }

    fn statfs(&self, _: &mut Call<'_, '_>) -> Reply<StatFs> {
        let (limit, free) = self.usage.limit_and_free();
        Poll::Ready(Ok(StatFs {
            block_size: BLOCK_SIZE,
            blocks: limit / PAGE_BYTES,
            free_blocks: free / PAGE_BYTES,
            inodes: self.inodes.count(),
        }))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
impl<S: System> RamFs<S> {
    /// The contents of a file.
    pub(crate) fn contents(&self, ino: Ino) -> Vec<u8> {
        self.contents_of(ino).expect("a regular file").bytes()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
