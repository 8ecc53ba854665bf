//! Mounted file systems, and references to their inodes.
//!
//! A [`Mount`] is a file system that is mounted on a directory. A [`Node`] is a counted reference to an inode
//! of a mount: it keeps the mount in use, and its drop forgets the inode. Each mount knows the directory that
//! it covers, and the mounts on its own directories. So a walk can cross mount points in both directions.
//! Most file systems find the parent of a directory themselves. If a server does not, a directory's node
//! keeps a reference to its parent. A rename must update this reference ([`Node::note_move`]).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter::successors;
use core::mem;
use core::ops::ControlFlow;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_abi::O_DIRECTORY;
use hermit_interface::Errno;
use lock_api::Mutex;

use super::attr_cache::AttrCache;
use super::listings::Listings;
use super::locks::LockTable;
use super::write_back::{WriteBack, WrittenInode};
use crate::file_system::{Name, OpenInode, Opened, complete};
use crate::system::{Lock, copied};
use crate::{Attr, DirEntry, Entry, FileSystem, FileType, Found, FoundInode, Ino, Lookup, SetAttr, System};

/// A mounted file system in `/proc/mounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// Type of the file system.
    pub type_name: &'static str,
    /// Path of the directory.
    pub path: Vec<u8>,
    /// True if the file system is mounted read-only.
    pub is_read_only: bool,
}

/// A mounted file system.
#[derive(Debug)]
pub(super) struct Mount<S: System> {
    pub(super) file_system: Arc<dyn FileSystem<S>>,
    /// Device ID (`st_dev`).
    pub(super) device: u64,
    pub(super) is_read_only: bool,
    /// The directory that the file system is mounted on; `None` for the root file system.
    pub(super) covered: Option<Arc<Node<S>>>,
    /// Mounts on directories of this file system.
    submounts: Lock<S, Vec<(Ino, Arc<Self>)>>,
    /// For each directory in `submounts`, the bit with the directory's number modulo 64 is set.
    submount_bits: AtomicU64,
    /// Advisory locks of the mount's open files.
    pub(super) locks: LockTable<S>,
    /// Cached attributes of the mount's inodes; `None` if the file system does not permit a cache.
    attrs: Option<AttrCache<S>>,
    /// Decides whether listings of the mount's directories ask for inodes.
    pub(super) listings: Listings,
    /// Collected writes; `None` if writes on this mount are not collected.
    pub(super) write_back: Option<WriteBack<S>>,
}

impl<S: System> Mount<S> {
    pub(super) fn new(
        file_system: Arc<dyn FileSystem<S>>,
        device: u64,
        (is_read_only, data_collected): (bool, Option<fn() -> bool>),
        covered: Option<Arc<Node<S>>>,
    ) -> Self {
        let submounts = Mutex::new(Vec::new());
        let has_validity = file_system.has_validity();
        Self {
            file_system,
            device,
            is_read_only,
            covered,
            submounts,
            submount_bits: AtomicU64::new(0),
            locks: LockTable::new(),
            attrs: has_validity.then(AttrCache::new),
            listings: Listings::new(),
            write_back: data_collected.map(WriteBack::new),
        }
    }

    /// Returns the cache of attributes, if the file system permits a cache.
    pub(super) const fn attrs(&self) -> Option<&AttrCache<S>> {
        self.attrs.as_ref()
    }

    /// Returns true if names and attributes may be cached.
    pub(super) const fn has_validity(&self) -> bool {
        self.attrs.is_some()
    }

    /// Removes the cached attributes of an inode, after a call has changed them.
    pub(super) fn forget_attr(&self, ino: Ino) {
        if let Some(attrs) = &self.attrs {
            attrs.remove(ino);
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

    /// Returns a word that has, for each directory with a mount on it, the bit of the directory's number
    /// modulo 64.
    pub(super) fn submount_bits(&self) -> u64 {
        self.submount_bits.load(Acquire)
    }

    /// Returns the mount on a directory.
    pub(super) fn submount(&self, directory: Ino) -> Option<Arc<Self>> {
        if self.submount_bits() >> (directory.0 % 64) & 1 == 0 {
            return None;
        }
        let submounts = self.submounts.lock();
        submounts.iter().find(|(ino, _)| *ino == directory).map(|(_, mount)| Arc::clone(mount))
    }

    /// Adds a mount on a directory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if something is already mounted on the directory; `ENOMEM`.
    pub(super) fn add_submount(&self, directory: Ino, mount: Arc<Self>) -> Result<(), Errno> {
        let mut submounts = self.submounts.lock();
        if submounts.iter().any(|(ino, _)| *ino == directory) {
            // The caller drops `mount`, after the lock is released.
            return Err(Errno::EBUSY);
        }
        submounts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        submounts.push((directory, mount));
        self.submount_bits.fetch_or(1 << (directory.0 % 64), Release);
        Ok(())
    }

    /// Removes the mounts on directories of this file system, and those below them.
    pub(super) fn remove_submounts(&self) {
        let submounts = mem::take(&mut *self.submounts.lock());
        submounts.iter().for_each(|(_, mount)| mount.remove_submounts());
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
        mounts.extend(submounts.iter().rev().map(|(_, mount)| Arc::clone(mount)));
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

/// An inode of a mounted file system. Dropping the node drops one reference to the inode.
#[derive(Debug)]
pub(super) struct Node<S: System> {
    pub(super) mount: Arc<Mount<S>>,
    pub(super) ino: Ino,
    pub(super) file_type: FileType,
    /// The parent of a directory, if the file system cannot find it itself.
    above: Lock<S, Option<Arc<Self>>>,
}

impl<S: System> Node<S> {
    /// The root directory of a mount.
    pub(super) fn root(mount: &Arc<Mount<S>>) -> Result<Arc<Self>, Errno> {
        Self::of_found(mount, FoundInode { ino: Ino::ROOT, generation: 0, file_type: FileType::Directory })
    }

    /// Creates a node for an inode that a path leads to. The node takes over the reference to the inode.
    #[inline]
    pub(super) fn new(mount: &Arc<Mount<S>>, found: FoundInode) -> Self {
        let FoundInode { ino, file_type, .. } = found;
        Self { mount: Arc::clone(mount), ino, file_type, above: Mutex::new(None) }
    }

    /// Creates a shared node, as [`Self::new`].
    pub(super) fn of_found(mount: &Arc<Mount<S>>, found: FoundInode) -> Result<Arc<Self>, Errno> {
        Self::below(None, mount, found)
    }

    /// Creates a node as [`Self::of_found`], and remembers the parent `above` if there is one.
    fn below(above: Option<Arc<Self>>, mount: &Arc<Mount<S>>, found: FoundInode) -> Result<Arc<Self>, Errno> {
        let mut node = Self::new(mount, found);
        *node.above.get_mut() = above;
        S::arc(node).ok_or(Errno::ENOMEM)
    }

    /// Creates a node for the inode of an entry. The node takes over the reference to the inode.
    pub(super) fn of_entry(mount: &Arc<Mount<S>>, entry: &Entry) -> Result<Arc<Self>, Errno> {
        Self::of_found(mount, entry.found())
    }

    /// Creates a node for the inode of an entry in this directory.
    pub(super) fn of_child(self: &Arc<Self>, entry: &Entry) -> Result<Arc<Self>, Errno> {
        let found = entry.found();
        let is_kept = found.file_type == FileType::Directory && !self.file_system().finds_parents();
        Self::below(is_kept.then(|| Arc::clone(self)), &self.mount, found)
    }

    /// Returns true if `..` leads from this node to `directory`: if the remembered parent is the very node
    /// `directory`, or if the file system finds parents itself. For the root of a mount, the remembered
    /// parent may also be another node of the root.
    pub(super) fn is_directly_below(&self, directory: &Arc<Self>) -> bool {
        let is_root = directory.ino == Ino::ROOT;
        let is_it =
            |above: &Arc<Self>| Arc::ptr_eq(above, directory) || (is_root && above.is_same(directory));
        self.above.lock().as_ref().is_none_or(is_it)
    }

    /// Returns the remembered parent of a directory. `None` if the file system finds parents itself.
    fn above(&self) -> Option<Arc<Self>> {
        self.above.lock().as_ref().map(Arc::clone)
    }

    /// Returns the parent directory if it is known without a request. The parent of a mount's root is the
    /// directory that the mount covers.
    fn known_parent(&self) -> Option<Arc<Self>> {
        self.above().or_else(|| self.mount.covered.as_ref().filter(|_| self.ino == Ino::ROOT).map(Arc::clone))
    }

    /// Updates the remembered parent of a directory, `moved`, after it was moved to the directory `to` within
    /// its file system. Checks this node and the nodes above it, because one of them may be another node of
    /// the moved directory.
    pub(super) fn note_move(self: &Arc<Self>, moved: &Self, to: &Arc<Self>) {
        // A server may claim that it has moved a directory below itself. Then the nodes would refer to each
        // other, and would never be dropped.
        let is_cycle = successors(Some(Arc::clone(to)), |node| node.above()).any(|node| node.is_same(moved));
        if is_cycle {
            return;
        }
        let own = successors(Some(Arc::clone(self)), |node| node.known_parent());
        own.filter(|node| node.is_same(moved)).for_each(|node| node.set_above(to));
    }

    /// Changes the remembered parent, if this node remembers one.
    fn set_above(&self, to: &Arc<Self>) {
        let before = self.above.lock().as_mut().map(|above| mem::replace(above, Arc::clone(to)));
        if let Some(before) = before {
            drop_directories(before);
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.ino == other.ino && Arc::ptr_eq(&self.mount, &other.mount)
    }

    pub(super) fn file_system(&self) -> &dyn FileSystem<S> {
        &*self.mount.file_system
    }

    /// Returns a name in this directory, for use in a request.
    pub(super) const fn name<'a>(&self, name: &'a [u8]) -> Name<'a> {
        Name { parent: self.ino, name }
    }

    /// Returns the attributes of the inode.
    pub(super) async fn attr(&self) -> Result<Attr, Errno> {
        let get = || complete(|call| self.file_system().getattr(call, self.ino));
        let Some(attrs) = &self.mount.attrs else { return get().await };
        if let Some(attr) = attrs.find(self.ino) {
            return Ok(attr);
        }
        self.mount.write_out(self.ino).await?;
        let request = attrs.request();
        let attr = get().await?;
        // If another thread has collected writes since the request, these attributes do not include them, so
        // they are not cached.
        if !self.mount.has_collected(self.ino) {
            attrs.insert(request, &attr);
        }
        Ok(attr)
    }

    /// Changes attributes of the inode.
    pub(super) async fn set_attr(&self, changes: &SetAttr) -> Result<(), Errno> {
        match &self.mount.write_back {
            Some(write_back) if changes.size.is_some() => write_back.end_sequence(self.ino).await?,
            _ => drop(self.mount.write_out(self.ino).await?),
        }
        let result = complete(|call| self.file_system().setattr(call, self.ino, changes)).await;
        self.mount.forget_attr(self.ino);
        result.map(drop)
    }

    /// Asks the file system for a name in this directory.
    pub(super) async fn ask(&self, name: &[u8]) -> Result<Lookup, Errno> {
        complete(|call| self.file_system().lookup(call, self.name(name))).await
    }

    /// Asks the file system for a name, and caches the attributes if the name has an inode. The returned node
    /// holds the reference to the inode.
    pub(super) async fn ask_and_keep(
        self: &Arc<Self>,
        name: &[u8],
    ) -> Result<(Option<Arc<Self>>, u64), Errno> {
        let request = self.mount.attrs.as_ref().map(AttrCache::request);
        match self.ask(name).await? {
            Lookup::Absent { validity } => Ok((None, validity)),
            Lookup::Found(entry) => {
                let node = self.of_child(&entry)?;
                if let (Some(attrs), Some(request)) = (&self.mount.attrs, request)
                    && !self.mount.has_collected(node.ino)
                {
                    attrs.insert(request, &entry.attr);
                }
                Ok((Some(node), entry.validity))
            }
        }
    }

    /// Returns the node itself, or the root of the file system that is mounted on it.
    pub(super) fn or_mounted(self: Arc<Self>) -> Result<Arc<Self>, Errno> {
        self.mount.submount(self.ino).map_or(Ok(self), |mount| Self::root(&mount))
    }

    /// Looks up a name in this directory without the name cache. Returns its inode, or the root of the file
    /// system that is mounted on the inode.
    pub(super) async fn lookup(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Self>, Errno> {
        self.of_child(&self.ask(name).await?.found()?)?.or_mounted()
    }

    /// Looks up all names of a path at once, if the file system can: see [`FileSystem::lookup_path`].
    pub(super) fn lookup_path(&self, path: &[u8]) -> Option<Found<S>> {
        self.file_system().lookup_path(self.ino, path, self.mount.submount_bits())
    }

    /// Returns the name of `directory`, which is in this directory.
    pub(super) async fn name_of(&self, directory: &Self) -> Result<Vec<u8>, Errno> {
        // The root of a mount has the name of the directory that the mount covers.
        let mut sought = directory;
        while sought.ino == Ino::ROOT {
            sought = sought.mount.covered.as_ref().ok_or(Errno::ENOENT)?;
        }
        let number = sought.attr().await?.number;
        let mut name = Err(Errno::ENOENT);
        let mut compare = |entry: DirEntry<'_>| {
            if entry.number != number {
                return ControlFlow::Continue(());
            }
            name = copied(entry.name);
            ControlFlow::Break(())
        };
        let opened = complete(|call| self.file_system().open(call, self.ino, O_DIRECTORY)).await?;
        let Opened::Inode(handle) = opened else { return Err(Errno::ENOTDIR) };
        let inode = OpenInode { ino: self.ino, handle };
        let result = complete(|call| self.file_system().readdir(call, inode, 0, &mut compare)).await;
        self.file_system().release(self.ino, handle);
        result.and(name)
    }

    /// Returns the parent directory. The parent of the root is the root itself.
    pub(super) async fn parent(self: &Arc<Self>) -> Result<Arc<Self>, Errno> {
        let mut node = self;
        while node.ino == Ino::ROOT {
            match &node.mount.covered {
                Some(covered) => node = covered,
                None => return Ok(Arc::clone(node)),
            }
        }
        match node.above() {
            Some(above) => Ok(above),
            None => node.lookup(b"..").await,
        }
    }
}

impl<S: System> WrittenInode<S> for Node<S> {
    fn file_system(&self) -> &dyn FileSystem<S> {
        self.file_system()
    }

    fn forget_attr(&self) {
        self.mount.forget_attr(self.ino);
    }
}

impl<S: System> Drop for Node<S> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(attrs) = &self.mount.attrs {
            attrs.forget(self.ino);
        }
        self.mount.file_system.forget(self.ino, 1);
        if let Some(above) = self.above.get_mut().take() {
            drop_directories(above);
        }
    }
}

/// Drops a directory, and each parent to which no other node refers. This is a loop instead of a recursion,
/// because directories may be nested deeper than the stack allows.
#[cold]
fn drop_directories<S: System>(directory: Arc<Node<S>>) {
    let mut next = Some(directory);
    while let Some(mut node) = next.and_then(Arc::into_inner) {
        next = node.above.get_mut().take();
    }
}
