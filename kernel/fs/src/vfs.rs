//! The virtual file system: mounts, path walks, and the calls with paths.
//!
//! A [`Vfs`] is a tree of mounts. A call walks its path from the root or the current directory, one name at a
//! time, and then makes a request to the file system of the last inode. Caches avoid many of these requests:
//! caches of names (`name_cache`) and of whole paths (`path_cache`), of attributes (`attr_cache`), of pages
//! of files (`page_cache`), and of small writes (`write_back`). The file systems say how long their replies
//! may be cached. The contents of a file in memory are read and written without requests
//! ([`Contents`](crate::Contents)).
//!
//! Calls are asynchronous functions, because a file system may keep a request pending. While a request is
//! pending, the call holds no spinlock.
//!
//! Calls check what Linux checks for a privileged user: read-only mounts, but no permission bits.

mod attr_cache;
mod change_count;
mod descriptor;
mod immediate;
mod join;
mod listings;
mod locks;
#[cfg(test)]
#[cfg(loom)]
mod models;
mod mount;
mod name_cache;
mod names;
mod node;
mod open;
mod open_file;
mod page_cache;
mod path_cache;
mod path_names;
mod position;
mod read_directory;
mod walk;
mod write_back;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_abi::file_properties;
use hermit_base::try_alloc::try_push;
use hermit_interface::Errno;
use lock_api::Mutex;

use crate::interface::file_system::{Capabilities, complete};
use crate::interface::system::Lock;
use crate::interface::{
    Attr, DescriptorTarget, FileSystem, FileType, Ino, MountInfo, SetAttr, StatFs, System,
};
use mount::Mount;
use name_cache::NameCache;
use node::Node;
use page_cache::PageCache;
use path_cache::PathCache;
use walk::LastLink;

pub use descriptor::{DescriptorFile, Done, FileDescriptor};
pub use join::join_each;
pub use locks::FileLock;
pub use open::OpenedPath;
pub use open_file::{OpenFile, Whence};

/// Permission bits that new files and directories do not get (`umask`).
const UMASK: u32 = 0o022;

/// Maximum size in bytes of all cached pages of files on servers.
const PAGE_CACHE_SIZE: u64 = 8 << 20;

/// Maximum number of mounts whose small writes are collected. On further mounts, each write is a request.
const MAX_COLLECTING: usize = 16;

/// Maximum number of attempts to find the path of a directory while directories are renamed.
const MAX_PATH_TRIES: u32 = 100;

/// Metadata of an inode as for `stat`: its attributes and the device ID of its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Attributes of the inode.
    pub attr: Attr,
    /// Device ID (`st_dev`).
    pub device: u64,
}

impl Metadata {
    /// Returns the metadata in the format that programs see.
    #[must_use]
    pub const fn properties(&self) -> file_properties {
        properties(&self.attr, self.device)
    }
}

/// Converts attributes to the format that programs see.
#[inline]
const fn properties(attr: &Attr, device: u64) -> file_properties {
    file_properties {
        ino: attr.number,
        dev: device,
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.seconds,
        mtime: attr.mtime.seconds,
        ctime: attr.ctime.seconds,
        btime: attr.btime.seconds,
        atime_nsec: attr.atime.nanoseconds,
        mtime_nsec: attr.mtime.nanoseconds,
        ctime_nsec: attr.ctime.nanoseconds,
        btime_nsec: attr.btime.nanoseconds,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        blksize: attr.block_size,
        __reserved: 0,
    }
}

/// Treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// The call follows the link, as `stat`.
    Follow,
    /// The call is about the link itself, as `lstat`.
    Keep,
}

impl From<Symlinks> for LastLink {
    fn from(symlinks: Symlinks) -> Self {
        match symlinks {
            Symlinks::Follow => Self::Follow,
            Symlinks::Keep => Self::FollowBeforeSlash,
        }
    }
}

/// The current directory.
#[derive(Debug)]
struct Current<S: System> {
    directory: Arc<Node<S>>,
    /// Number of changes of the current directory, plus one. The path cache has it in place of the directory.
    number: u64,
}

/// The virtual file system: the mounted file systems and the current directory.
#[derive(Debug)]
pub struct Vfs<S: System> {
    root: Arc<Node<S>>,
    current: Lock<S, Current<S>>,
    names: NameCache<S>,
    paths: PathCache<S>,
    next_device: AtomicU64,
    /// The page cache. Allocated for the first mount that has one.
    pages: Lock<S, Option<Arc<PageCache<S>>>>,
    /// Function that is called when writes are collected. `None` if no writes are to be collected.
    data_collected: Option<fn() -> bool>,
    /// Mounts whose writes are collected.
    collecting: Lock<S, Vec<Arc<Mount<S>>>>,
}

impl<S: System> Drop for Vfs<S> {
    /// Breaks reference cycles: a mount and the directory that it covers refer to each other.
    fn drop(&mut self) {
        self.root.mount.remove_submounts();
    }
}

impl<S: System> Vfs<S> {
    /// Mounts the root file system.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(root: Arc<dyn FileSystem<S>>) -> Result<Self, Errno> {
        let mount = Mount::new(root, 1, (false, None), None, None);
        let mount = S::arc(mount).ok_or(Errno::ENOMEM)?;
        let root = Node::root(&mount)?;
        let current = Mutex::new(Current { directory: Arc::clone(&root), number: 1 });
        Ok(Self {
            root,
            current,
            names: NameCache::new(),
            paths: PathCache::new(),
            next_device: AtomicU64::new(2),
            pages: Mutex::new(None),
            data_collected: None,
            collecting: Mutex::new(Vec::new()),
        })
    }

    /// Enables write-back: small writes to file systems that are mounted from now on are collected, if the
    /// file systems allow it.
    ///
    /// The virtual file system calls `data_collected` when it is about to collect writes. After that, the
    /// kernel must call [`Self::write_back`] repeatedly until it returns that nothing is due any more. If the
    /// kernel cannot do this, `data_collected` returns false, and the writes are not collected.
    /// `data_collected` must not wait.
    #[must_use]
    pub fn with_write_back(mut self, data_collected: fn() -> bool) -> Self {
        self.data_collected = Some(data_collected);
        self
    }

    /// Mounts a file system on a directory.
    ///
    /// # Errors
    ///
    /// Those of a walk; `ENOTDIR`; `EBUSY` on the root; `ENOMEM`.
    pub async fn mount(
        &self,
        file_system: Arc<dyn FileSystem<S>>,
        path: &[u8],
        is_read_only: bool,
    ) -> Result<(), Errno> {
        let directory = self.walk(path, LastLink::Follow).await?.existing()?;
        if !directory.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if directory.ino == Ino::ROOT {
            return Err(Errno::EBUSY);
        }
        let device = self.next_device.fetch_add(1, Relaxed);
        let has_validity = file_system.capabilities().contains(Capabilities::ATTR_VALIDITY);
        // A read-only mount has no writes to collect.
        let may_collect = !is_read_only && has_validity && self.write_back_mounts() < MAX_COLLECTING;
        let data_collected = self.data_collected.filter(|_| may_collect);
        let options = (is_read_only, data_collected);
        let pages = if has_validity { Some(self.page_cache()?) } else { None };
        let mount = Mount::new(file_system, device, options, Some(Arc::clone(&directory)), pages);
        let mount = S::arc(mount).ok_or(Errno::ENOMEM)?;
        if data_collected.is_some() {
            let mut collecting = self.collecting.lock();
            try_push(&mut *collecting, Arc::clone(&mount))?;
        }
        let root = Node::root(&mount)?;
        let change = self.paths.begin_change();
        let added = directory.mount.add_submount(directory.ino, root);
        drop(change);
        if added.is_err() {
            self.collecting.lock().retain(|other| !Arc::ptr_eq(other, &mount));
        }
        added
    }

    /// Lists the mounted file systems, in the order of mounting, except that a mount comes before the mounts
    /// on its own directories. A mount is left out if the directory that it covers, or a directory above it,
    /// was removed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO`.
    pub async fn mounts(&self) -> Result<Vec<MountInfo>, Errno> {
        let (mut infos, mut found) = (Vec::new(), Vec::new());
        try_push(&mut found, Arc::clone(&self.root.mount))?;
        while let Some(mount) = found.pop() {
            mount.add_submounts_to(&mut found)?;
            let (type_name, is_read_only) = (mount.file_system.type_name(), mount.is_read_only);
            let path = match self.path_of(Node::root(&mount)?).await {
                Err(Errno::ENOENT) => continue,
                path => path?,
            };
            try_push(&mut infos, MountInfo { type_name, path, is_read_only })?;
        }
        Ok(infos)
    }

    /// Empties the caches of names and paths: frees memory and drops references to inodes.
    pub fn forget_names(&self) {
        self.names.clear();
        self.paths.clear();
    }

    /// Returns the page cache. The first call allocates it.
    fn page_cache(&self) -> Result<Arc<PageCache<S>>, Errno> {
        let existing = self.pages.lock().clone();
        let pages = existing.map_or_else(|| PageCache::new(PAGE_CACHE_SIZE), Ok)?;
        Ok(Arc::clone(self.pages.lock().get_or_insert(pages)))
    }

    /// Frees the memory of all caches. May be called by an allocation that has failed.
    pub fn reclaim(&self) {
        self.forget_names();
        let pages = self.pages.try_lock().and_then(|pages| pages.clone());
        if let Some(pages) = pages {
            pages.clear();
        }
    }

    /// Empties the name cache if `error` says that memory, or the inodes or descriptors of a server, are
    /// short: cached names use all of these. Returns true if it has emptied the cache, so the caller can try
    /// again.
    fn make_room(&self, error: Errno) -> bool {
        let is_full = matches!(error, Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE);
        if is_full {
            self.forget_names();
        }
        is_full
    }

    /// Returns the number of mounts whose writes are collected. Only [`Self::mount`] changes the number.
    pub fn write_back_mounts(&self) -> usize {
        self.collecting.lock().len()
    }

    /// Writes out the collected small writes of all files of a mount. `mount` is a number below
    /// [`Self::write_back_mounts`]. With `is_due`, writes only data that were collected long enough ago, and
    /// returns the [time](System::monotonic) at which the remaining data are due, or `None` if nothing
    /// remains. The files report errors of these writes later. This call waits for the server. Callers use
    /// [`join_each`](crate::join_each), so a server that does not reply does not delay the other mounts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub async fn write_back(&self, mount: usize, is_due: bool) -> Result<Option<u64>, Errno> {
        let mount = self.collecting.lock().get(mount).map(Arc::clone);
        match mount.as_ref().and_then(|mount| mount.write_back.as_ref()) {
            Some(write_back) => write_back.write_all(is_due).await,
            None => Ok(None),
        }
    }

    /// Returns the directory at which relative paths begin.
    fn current_directory(&self) -> Arc<Node<S>> {
        Arc::clone(&self.current.lock().directory)
    }

    /// Changes the current directory (`chdir`).
    ///
    /// # Errors
    ///
    /// Those of a walk; `ENOTDIR`.
    pub async fn change_directory(&self, path: &[u8]) -> Result<(), Errno> {
        let node = self.walk(path, LastLink::Follow).await?.existing()?;
        if !node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let mut current = self.current.lock();
        current.number += 1;
        let before = core::mem::replace(&mut current.directory, node);
        drop(current);
        drop(before);
        Ok(())
    }

    /// Returns the path of the current directory (`getcwd`): its name and the names of the directories above
    /// it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the directory or one above it was removed; `ENOMEM`, `EIO`.
    pub async fn current_path(&self) -> Result<Vec<u8>, Errno> {
        self.path_of(self.current_directory()).await
    }

    /// Returns the absolute path, without symbolic links, `.` and `..`, of the inode that `path` leads to
    /// (`realpath`).
    ///
    /// # Errors
    ///
    /// Those of a walk; `ENOMEM`, `EIO`.
    pub async fn real_path(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let walked = self.walk(path, LastLink::Follow).await?;
        walked.check_existing()?;
        if !walked.has_proper_name() {
            return self.path_of(walked.existing()?).await;
        }
        let mut path = self.path_of(Arc::clone(&walked.parent)).await?;
        let name = walked.name();
        path.try_reserve_exact(name.len() + 1).map_err(|_| Errno::ENOMEM)?;
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    /// Returns the path that a directory had at one point in time during the call, even if other threads
    /// rename directories meanwhile.
    async fn path_of(&self, directory: Arc<Node<S>>) -> Result<Vec<u8>, Errno> {
        for _ in 0..MAX_PATH_TRIES {
            let before = self.paths.unchanged();
            let path = self.try_path_of(Arc::clone(&directory)).await;
            if before.is_some_and(|before| self.paths.is_still(before)) {
                return path;
            }
        }
        self.try_path_of(directory).await
    }

    /// Returns the path of a directory. The result is right only if no directory above it is renamed
    /// meanwhile.
    async fn try_path_of(&self, directory: Arc<Node<S>>) -> Result<Vec<u8>, Errno> {
        let mut node = directory;
        // The names of the path, the last one first.
        let mut names: Vec<Vec<u8>> = Vec::new();
        while !node.is_same(&self.root) {
            let parent = node.parent().await?;
            try_push(&mut names, parent.name_of(&node).await?)?;
            node = parent;
        }
        let mut path = Vec::new();
        let length = names.iter().map(|name| name.len() + 1).sum::<usize>().max(1);
        path.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// Returns the target of an open file's symbolic link in `/proc/self/fd`. The target of a directory is
    /// its path. The target of a file is its type and number, since a file may have several names or no name.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the directory was removed; `ENOMEM`, `EIO`.
    pub async fn describe(&self, file: &OpenFile<S>) -> Result<DescriptorTarget, Errno> {
        let node = file.node();
        if node.is_directory() {
            return self.path_of(Arc::clone(node)).await.map(DescriptorTarget::Path);
        }
        Ok(DescriptorTarget::Numbered(node.file_system().type_name(), node.attr().await?.number))
    }

    /// Returns the metadata of the inode that a path leads to (`stat`, `lstat`).
    ///
    /// # Errors
    ///
    /// Those of a walk, `EIO`.
    pub async fn metadata(&self, path: &[u8], symlinks: Symlinks) -> Result<Metadata, Errno> {
        let node = match self.try_find(path) {
            Some(node) => node,
            None => self.walk(path, symlinks.into()).await?.existing()?,
        };
        Ok(Metadata { attr: node.attr().await?, device: node.mount.device })
    }

    /// Changes attributes of the inode that a path leads to (`chmod`, `truncate`, `utimensat`).
    ///
    /// # Errors
    ///
    /// Those of a walk and of [`FileSystem::setattr`], `EROFS`.
    pub async fn set_attributes(
        &self,
        path: &[u8],
        symlinks: Symlinks,
        changes: &SetAttr,
    ) -> Result<(), Errno> {
        let node = self.walk(path, symlinks.into()).await?.existing()?;
        node.mount.check_writable()?;
        node.set_attr(changes).await
    }

    /// Returns the target of a symbolic link (`readlink`).
    ///
    /// # Errors
    ///
    /// Those of a walk; `EINVAL` if the inode is not a symbolic link; `ENOMEM`.
    pub async fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let node = self.walk(path, LastLink::FollowBeforeSlash).await?.existing()?;
        if node.file_type != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        let mut target = Vec::new();
        complete(|call| node.file_system().readlink(call, node.ino, &mut target)).await?;
        Ok(target)
    }

    /// Returns the usage of the file system that a path leads to (`statfs`).
    ///
    /// # Errors
    ///
    /// Those of a walk, `EIO`.
    pub async fn usage(&self, path: &[u8]) -> Result<StatFs, Errno> {
        let node = self.walk(path, LastLink::Follow).await?.existing()?;
        complete(|call| node.file_system().statfs(call)).await
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
