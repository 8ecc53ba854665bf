//! References to inodes of mounted file systems.
//!
//! A [`Node`] is a counted reference to an inode: it keeps the mount in use, and its drop forgets the inode.
//! Most file systems find the parent of a directory themselves. If a server does not, a directory's node
//! keeps a reference to its parent. A rename must update this reference ([`Node::note_move`]).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter::successors;
use core::mem;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_abi::O_DIRECTORY;
use hermit_base::try_alloc::try_to_vec;
use hermit_interface::Errno;
use lock_api::Mutex;

use super::attr_cache::AttrCache;
use super::mount::Mount;
use super::write_back::WrittenInode;
use crate::interface::file_system::{Capabilities, Name, OpenInode, Opened, complete};
use crate::interface::system::{AtomicBool, Lock};
use crate::interface::{Attr, Contents, DirEntry, Entry, FileSystem, FileType, Ino, Lookup, SetAttr, System};

/// Number that no inode has.
const NO_INODE: Ino = Ino(0);

/// An inode of a mounted file system. Dropping the node drops one reference to the inode.
#[derive(Debug)]
pub(super) struct Node<S: System> {
    pub(super) mount: Arc<Mount<S>>,
    pub(super) ino: Ino,
    pub(super) file_type: FileType,
    /// The contents of a regular file in memory.
    contents: Option<Arc<Contents<S>>>,
    /// True if a name of the inode is in the name cache and leads to this node, and for the root of a mount.
    /// Changed under the lock of the name's bucket.
    is_named: AtomicBool,
    /// The parent of a directory, if the file system cannot find it itself.
    above: Lock<S, Option<Arc<Self>>>,
}

impl<S: System> Node<S> {
    /// Creates a node of the root directory of a mount.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn root(mount: &Arc<Mount<S>>) -> Result<Arc<Self>, Errno> {
        Self::new(mount, Ino::ROOT, FileType::Directory)
    }

    /// Allocates a node that refers to no inode yet. [`Self::set_entry`] gives it one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(mount: &Arc<Mount<S>>) -> Result<Arc<Self>, Errno> {
        Self::new(mount, NO_INODE, FileType::Regular)
    }

    #[inline]
    fn new(mount: &Arc<Mount<S>>, ino: Ino, file_type: FileType) -> Result<Arc<Self>, Errno> {
        let make = || Self {
            mount: Arc::clone(mount),
            ino,
            file_type,
            contents: None,
            is_named: AtomicBool::new(ino == Ino::ROOT),
            above: Mutex::new(None),
        };
        S::arc_with(make).ok_or(Errno::ENOMEM)
    }

    /// Makes this node refer to the inode of an entry in the directory `parent`. Takes over the reference to
    /// the inode, and the contents. The node refers to no inode before.
    pub(super) fn set_entry(&mut self, parent: &Arc<Self>, entry: &mut Entry<S>) {
        let file_type = entry.attr.file_type();
        if file_type == FileType::Directory && !self.mount.has(Capabilities::FINDS_PARENTS) {
            *self.above.get_mut() = Some(Arc::clone(parent));
        }
        (self.ino, self.file_type, self.contents) = (entry.attr.ino, file_type, entry.contents.take());
    }

    /// Creates a node for the inode of an entry in this directory. Takes over the reference to the inode.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. Then the reference is dropped.
    pub(super) fn of_child(self: &Arc<Self>, mut entry: Entry<S>) -> Result<Arc<Self>, Errno> {
        let mut node =
            Self::allocate(&self.mount).inspect_err(|_| self.mount.file_system.forget(entry.attr.ino, 1))?;
        if let Some(node) = Arc::get_mut(&mut node) {
            node.set_entry(self, &mut entry);
        }
        Ok(node)
    }

    /// Returns the contents of a regular file in memory.
    #[inline]
    pub(super) const fn contents(&self) -> Option<&Arc<Contents<S>>> {
        self.contents.as_ref()
    }

    /// Returns true if a cached name leads to this node.
    #[inline]
    pub(super) fn is_named(&self) -> bool {
        self.is_named.load(Acquire)
    }

    /// Notes whether a cached name leads to this node. The lock of the name's bucket is held.
    pub(super) fn set_named(&self, is_named: bool) {
        self.is_named.store(is_named, Release);
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
        let Some(attrs) = self.mount.attrs() else { return get().await };
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
        let request = complete(|call| self.file_system().setattr(call, self.ino, changes));
        let result = match changes.size {
            Some(size) => self.mount.change_data(self.ino, size, request).await,
            None => request.await,
        };
        self.mount.forget_attr(self.ino);
        result.map(drop)
    }

    /// Asks the file system for a name in this directory.
    async fn ask(&self, name: &[u8]) -> Result<Lookup<S>, Errno> {
        complete(|call| self.file_system().lookup(call, self.name(name))).await
    }

    /// Asks the file system for a name, and caches the attributes if the name has an inode. The returned node
    /// holds the reference to the inode. Also returns how long the reply is valid, in nanoseconds.
    pub(super) async fn ask_and_keep(
        self: &Arc<Self>,
        name: &[u8],
    ) -> Result<(Option<Arc<Self>>, u64), Errno> {
        let request = self.mount.attrs().map(AttrCache::request);
        match self.ask(name).await? {
            Lookup::Absent { validity } => Ok((None, validity)),
            Lookup::Found(entry) => {
                let (attr, validity) = (entry.attr, entry.validity);
                let node = self.of_child(entry)?;
                if let (Some(attrs), Some(request)) = (self.mount.attrs(), request)
                    && !self.mount.has_collected(node.ino)
                {
                    attrs.insert(request, &attr);
                }
                Ok((Some(node), validity))
            }
        }
    }

    /// Returns the node itself, or the root of the file system that is mounted on it.
    #[inline]
    pub(super) fn or_mounted(self: Arc<Self>) -> Arc<Self> {
        self.mount.submount(self.ino).unwrap_or(self)
    }

    /// Looks up `..` in a directory below the root of its mount.
    async fn look_up_parent(self: &Arc<Self>) -> Result<Arc<Self>, Errno> {
        self.of_child(self.ask(b"..").await?.found()?)
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
            name = try_to_vec(entry.name).map_err(Errno::from);
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
            None => node.look_up_parent().await,
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
        if self.ino == NO_INODE {
            return;
        }
        if let Some(attrs) = self.mount.attrs() {
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
