//! Mounted file systems.
//!
//! A [`Mount`] is a file system that is mounted on a directory. Each mount knows the directory that it
//! covers, and the mounts on its own directories. So a walk can cross mount points in both directions.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_base::try_alloc::try_push;
use hermit_interface::Errno;
use lock_api::Mutex;

use super::attr_cache::AttrCache;
use super::change_count::ChangeCount;
use super::listings::Listings;
use super::locks::LockTable;
use super::node::Node;
use super::page_cache::PageCache;
use super::write_back::WriteBack;
use crate::interface::file_system::Capabilities;
use crate::interface::system::Lock;
use crate::interface::{FileSystem, Ino, System};

/// A directory on which a file system is mounted, and the root of that file system.
type Submount<S> = (Ino, Arc<Node<S>>);

/// A mounted file system.
#[derive(Debug)]
pub(super) struct Mount<S: System> {
    pub(super) file_system: Arc<dyn FileSystem<S>>,
    /// Device ID (`st_dev`).
    pub(super) device: u64,
    pub(super) is_read_only: bool,
    capabilities: Capabilities,
    /// The directory that the file system is mounted on; `None` for the root file system.
    pub(super) covered: Option<Arc<Node<S>>>,
    /// Directories of this file system on which another one is mounted, with the root of the other one.
    submounts: Lock<S, Vec<Submount<S>>>,
    /// For each directory in `submounts`, the bit with the directory's number modulo 64 is set.
    submount_bits: AtomicU64,
    /// Advisory locks of the mount's open files.
    pub(super) locks: LockTable<S>,
    /// Counts changes of names by this machine.
    pub(super) name_changes: ChangeCount,
    /// Cached attributes of the mount's inodes; `None` if the file system does not permit a cache.
    attrs: Option<AttrCache<S>>,
    /// Decides whether listings of the mount's directories ask for inodes.
    pub(super) listings: Listings,
    /// Cached pages of files; `None` if the file system does not permit a cache.
    pub(super) pages: Option<Arc<PageCache<S>>>,
    /// Collected writes; `None` if writes on this mount are not collected.
    pub(super) write_back: Option<WriteBack<S>>,
}

impl<S: System> Mount<S> {
    pub(super) fn new(
        file_system: Arc<dyn FileSystem<S>>,
        device: u64,
        (is_read_only, data_collected): (bool, Option<fn() -> bool>),
        covered: Option<Arc<Node<S>>>,
        pages: Option<Arc<PageCache<S>>>,
    ) -> Self {
        let submounts = Mutex::new(Vec::new());
        let capabilities = file_system.capabilities();
        let has_validity = capabilities.contains(Capabilities::ATTR_VALIDITY);
        Self {
            file_system,
            device,
            is_read_only,
            capabilities,
            covered,
            submounts,
            submount_bits: AtomicU64::new(0),
            locks: LockTable::new(),
            name_changes: ChangeCount::new(),
            attrs: has_validity.then(AttrCache::new),
            listings: Listings::new(),
            pages,
            write_back: data_collected.map(WriteBack::new),
        }
    }

    /// Returns true if the file system has a capability.
    #[inline]
    pub(super) const fn has(&self, capability: Capabilities) -> bool {
        self.capabilities.contains(capability)
    }

    /// Returns the cache of attributes, if the file system permits a cache.
    pub(super) const fn attrs(&self) -> Option<&AttrCache<S>> {
        self.attrs.as_ref()
    }

    /// Removes the cached attributes of an inode, after a call has changed them.
    pub(super) fn forget_attr(&self, ino: Ino) {
        if let Some(attrs) = &self.attrs {
            attrs.remove(ino);
        }
    }

    /// Returns the key of an inode in the page cache.
    pub(super) const fn key(&self, ino: Ino) -> (u64, Ino) {
        (self.device, ino)
    }

    /// Makes a change of a file's data from an offset on.
    pub(super) async fn change_data<T>(&self, ino: Ino, offset: u64, change: impl Future<Output = T>) -> T {
        match &self.pages {
            Some(pages) => pages.change(self.key(ino), offset, change).await,
            None => change.await,
        }
    }

    /// Returns true if writes to an inode are collected and not yet written out. The server's attributes do
    /// not yet reflect these writes.
    pub(super) fn has_collected(&self, ino: Ino) -> bool {
        self.write_back.as_ref().is_some_and(|write_back| write_back.has(ino))
    }

    /// Writes out the collected writes of an inode. Called before a request that depends on the inode's
    /// contents or attributes. Returns the error of these writes, if they fail. The opening that made them
    /// reports this error, too.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) async fn write_out(&self, ino: Ino) -> Result<Option<Errno>, Errno> {
        match &self.write_back {
            Some(write_back) if write_back.has(ino) => write_back.write_out(ino).await,
            _ => Ok(None),
        }
    }

    /// Returns the root of the file system that is mounted on a directory.
    pub(super) fn submount(&self, directory: Ino) -> Option<Arc<Node<S>>> {
        if self.submount_bits.load(Acquire) >> (directory.0 % 64) & 1 == 0 {
            return None;
        }
        let submounts = self.submounts.lock();
        submounts.iter().find(|(ino, _)| *ino == directory).map(|(_, root)| Arc::clone(root))
    }

    /// Mounts the file system with the root `root` on a directory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if something is already mounted on the directory; `ENOMEM`.
    pub(super) fn add_submount(&self, directory: Ino, root: Arc<Node<S>>) -> Result<(), Errno> {
        let mut submounts = self.submounts.lock();
        if submounts.iter().any(|(ino, _)| *ino == directory) {
            // `root` is dropped after the lock is released.
            drop(submounts);
            return Err(Errno::EBUSY);
        }
        try_push(&mut *submounts, (directory, root))?;
        self.submount_bits.fetch_or(1 << (directory.0 % 64), Release);
        Ok(())
    }

    /// Removes the mounts on directories of this file system, and those below them.
    pub(super) fn remove_submounts(&self) {
        let submounts = mem::take(&mut *self.submounts.lock());
        submounts.iter().for_each(|(_, root)| root.mount.remove_submounts());
        if let Some(write_back) = &self.write_back {
            write_back.clear();
        }
    }

    /// Appends the mounts on directories of this file system to `mounts`, the newest mount first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_submounts_to(&self, mounts: &mut Vec<Arc<Self>>) -> Result<(), Errno> {
        // Memory is allocated without the lock.
        while let Err(count) = self.try_add_submounts_to(mounts) {
            mounts.try_reserve(count).map_err(|_| Errno::ENOMEM)?;
        }
        Ok(())
    }

    /// Does [`Self::add_submounts_to`] if the vector has room. Otherwise fails with the number of mounts.
    fn try_add_submounts_to(&self, mounts: &mut Vec<Arc<Self>>) -> Result<(), usize> {
        let submounts = self.submounts.lock();
        if mounts.capacity() - mounts.len() < submounts.len() {
            return Err(submounts.len());
        }
        mounts.extend(submounts.iter().rev().map(|(_, root)| Arc::clone(&root.mount)));
        Ok(())
    }

    /// Fails if the file system is mounted read-only.
    ///
    /// # Errors
    ///
    /// `EROFS`.
    pub(super) const fn check_writable(&self) -> Result<(), Errno> {
        if self.is_read_only { Err(Errno::EROFS) } else { Ok(()) }
    }
}
