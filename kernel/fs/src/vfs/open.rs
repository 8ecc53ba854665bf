//! Opens files by path (`open`), and creates them if the flags ask for it.

use alloc::sync::Arc;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_TRUNC};
use hermit_interface::Errno;
use hermit_io::{ACCESS_MODE, Object};

use super::mount::Mount;
use super::node::Node;
use super::open_file::OpenFile;
use super::walk::{LastLink, Walked};
use super::{UMASK, Vfs};
use crate::interface::file_system::{Call, Opened, complete};
use crate::interface::{Entry, FileType, SetAttr, System};

/// Result of opening a path.
#[derive(Debug)]
pub enum OpenedPath<S: System> {
    /// An open file or directory.
    File(Arc<OpenFile<S>>),
    /// A device or another object. It implements reads, writes and so on itself.
    Object(Arc<dyn Object>),
}

pub(super) const fn is_for_writing(flags: i32) -> bool {
    flags & ACCESS_MODE != 0
}

impl<S: System> Vfs<S> {
    /// Opens a path (`open`). With `O_CREAT`, creates a regular file if the path has none.
    ///
    /// # Errors
    ///
    /// Errors of the path walk, of [`FileSystem::open`](crate::FileSystem::open) and of
    /// [`FileSystem::create`](crate::FileSystem::create); `EEXIST`, `EISDIR`, `ENOTDIR`, `EROFS`, `ELOOP`,
    /// `EINVAL` as on Linux.
    pub async fn open(&self, path: &[u8], flags: i32, permissions: u32) -> Result<OpenedPath<S>, Errno> {
        if flags & O_CREAT != 0 && flags & O_DIRECTORY != 0 {
            return Err(Errno::EINVAL);
        }
        let is_creating = flags & O_CREAT != 0;
        let is_exclusive = is_creating && flags & O_EXCL != 0;
        // As on Linux, a symbolic link at the end of the path is not followed with `O_NOFOLLOW`, or with both
        // `O_CREAT` and `O_EXCL`. But a slash after the link makes `open` follow it. With `O_CREAT`, a slash
        // is an error (see below), so the link is not followed.
        let last = match (is_creating, is_exclusive || flags & O_NOFOLLOW != 0) {
            (true, true) => LastLink::Keep,
            (true, false) => LastLink::FollowWithoutSlash,
            (false, true) => LastLink::FollowBeforeSlash,
            (false, false) => LastLink::Follow,
        };
        // Error of the failed creation after which the name cache was emptied. The cache is emptied only
        // once.
        let mut full = None;
        if !is_exclusive && let Some(node) = self.try_find(path) {
            return self.open_existing(&node, flags).await;
        }
        loop {
            let walked = self.walk(path, last).await?;
            // Linux does not create a regular file at a path that ends in a slash.
            if is_creating && walked.has_slash && walked.has_proper_name() {
                return Err(Errno::EISDIR);
            }
            match walked.node {
                // If the first attempt failed because the server was out of descriptors, the server may still
                // have created the file. Then `EEXIST` would be wrong, so the first error is returned.
                Some(_) if is_exclusive => return Err(full.unwrap_or(Errno::EEXIST)),
                Some(_) => return self.open_existing(&walked.existing()?, flags).await,
                None if !is_creating => return Err(Errno::ENOENT),
                None => {}
            }
            match self.create(&walked, permissions, flags).await {
                // Another thread has created the file since the walk. The next walk finds the file.
                Err(Errno::EEXIST) if !is_exclusive => {}
                Err(error) if full.is_none() && self.make_room(error) => {
                    full = Some(error);
                }
                created => return created,
            }
        }
    }

    /// Opens an inode. If memory or descriptors are short, empties the name cache and tries once more.
    async fn open_existing(&self, node: &Arc<Node<S>>, flags: i32) -> Result<OpenedPath<S>, Errno> {
        match open_existing(node, flags).await {
            Err(error) if self.make_room(error) => open_existing(node, flags).await,
            opened => opened,
        }
    }

    /// Creates a regular file at a path whose last name does not exist, and opens the file.
    async fn create(
        &self,
        walked: &Walked<'_, S>,
        permissions: u32,
        flags: i32,
    ) -> Result<OpenedPath<S>, Errno> {
        let (parent, name) = (&walked.parent, walked.name());
        parent.mount.check_writable()?;
        let permissions = permissions & 0o7777 & !UMASK;
        // The memory is allocated first. A call that fails must leave no new file.
        let new = NewFile::allocate(parent, flags)?;
        let change = self.names.begin_change(parent, name);
        let create = |call: &mut Call<'_, '_>| {
            parent.file_system().create(call, parent.name(name), permissions, flags)
        };
        let created = complete(create).await;
        Self::end_change(change, parent, None);
        let (mut entry, handle) = created?;
        Ok(OpenedPath::File(new.fill(parent, &mut entry, handle, flags)))
    }
}

/// An open file for a file that is about to be created.
pub(super) struct NewFile<S: System>(Arc<OpenFile<S>>);

impl<S: System> NewFile<S> {
    pub(super) fn allocate(parent: &Node<S>, flags: i32) -> Result<Self, Errno> {
        OpenFile::without_handle(Node::allocate(&parent.mount)?, flags).map(Self)
    }

    /// Opens the file that was created, with the handle that the file system gave to it.
    #[inline]
    pub(super) fn fill(
        self,
        parent: &Arc<Node<S>>,
        entry: &mut Entry<S>,
        handle: u64,
        flags: i32,
    ) -> Arc<OpenFile<S>> {
        let Self(mut file) = self;
        // This is the only reference.
        if let Some(file) = Arc::get_mut(&mut file) {
            file.set_entry(parent, entry);
            file.set_handle(handle, flags);
        }
        file
    }
}

/// Checks that the flags permit opening an existing inode.
///
/// # Errors
///
/// `EISDIR` if a directory would be changed, `ENOTDIR` for a file with `O_DIRECTORY`, `ELOOP` for a symbolic
/// link, `EROFS` for changes on a read-only mount.
#[inline]
pub(super) fn check_open<S: System>(mount: &Mount<S>, file_type: FileType, flags: i32) -> Result<(), Errno> {
    let is_changing = is_for_writing(flags) || flags & O_TRUNC != 0;
    match file_type {
        FileType::Directory if is_changing || flags & O_CREAT != 0 => Err(Errno::EISDIR),
        FileType::Directory => Ok(()),
        _ if flags & O_DIRECTORY != 0 => Err(Errno::ENOTDIR),
        FileType::Symlink => Err(Errno::ELOOP),
        FileType::Regular if is_changing => mount.check_writable(),
        _ => Ok(()),
    }
}

async fn open_existing<S: System>(node: &Arc<Node<S>>, flags: i32) -> Result<OpenedPath<S>, Errno> {
    check_open(&node.mount, node.file_type, flags)?;
    if node.file_type == FileType::Regular && flags & O_TRUNC != 0 {
        let changes = SetAttr { size: Some(0), ..SetAttr::default() };
        node.set_attr(&changes).await?;
    }
    open_node(node, flags).await
}

async fn open_node<S: System>(node: &Arc<Node<S>>, flags: i32) -> Result<OpenedPath<S>, Errno> {
    if node.contents().is_some() {
        return OpenFile::without_handle(Arc::clone(node), flags).map(OpenedPath::File);
    }
    let flags = if node.is_directory() { flags | O_DIRECTORY } else { flags };
    let opened = complete(|call| node.file_system().open(call, node.ino, flags)).await?;
    open_path(Arc::clone(node), opened, flags)
}

fn open_path<S: System>(node: Arc<Node<S>>, opened: Opened, flags: i32) -> Result<OpenedPath<S>, Errno> {
    Ok(match opened {
        Opened::Inode(handle) => OpenedPath::File(OpenFile::new(node, handle, flags)?),
        Opened::Object(object) => OpenedPath::Object(object),
    })
}
