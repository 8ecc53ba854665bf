//! Path walks. A walk starts with a path, and finds the directory of the path's last name and the inode of
//! that name.
//!
//! The walk goes from name to name. For each name, it looks into the name cache, and asks the file system if
//! the cache does not have the name. It crosses mount points. It follows a symbolic link by putting the
//! link's target in front of the rest of the path. The last name is special: some calls follow a symbolic
//! link there and some do not ([`LastLink`]). The last name need not exist, because some calls create it. A
//! file system in memory can walk all directories of the path in one step ([`FileSystem::lookup_path`]).

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use hermit_interface::{Errno, MAX_NAME, MAX_PATH};

use super::Vfs;
use super::mount::Node;
use super::name_cache::Known;
use crate::file_system::complete;
use crate::{FileType, System};

/// Maximum number of symbolic links in a walk, as on Linux.
const MAX_LINKS: u32 = 40;

/// Condition under which a walk follows a symbolic link at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLink {
    /// Always.
    Follow,
    /// Only if a slash follows the link.
    FollowBeforeSlash,
    /// Unless a slash follows the link.
    FollowWithoutSlash,
    /// Never: the call is about the name itself.
    Keep,
}

impl LastLink {
    const fn follows(self, has_slash: bool) -> bool {
        match self {
            Self::Follow => true,
            Self::FollowBeforeSlash => has_slash,
            Self::FollowWithoutSlash => !has_slash,
            Self::Keep => false,
        }
    }
}

/// Result of a walk.
#[derive(Debug)]
pub(super) struct Walked<'p, S: System> {
    /// The directory of the last name.
    pub(super) parent: Arc<Node<S>>,
    /// The inode of the last name, if it exists.
    pub(super) node: Option<Arc<Node<S>>>,
    /// True if a slash follows the last name.
    pub(super) has_slash: bool,
    path: Cow<'p, [u8]>,
    name: Range<usize>,
}

impl<S: System> Walked<'_, S> {
    /// Returns the last name. It may be `.` or `..`. It is empty if the path leads to the root.
    pub(super) fn name(&self) -> &[u8] {
        self.path.get(self.name.clone()).unwrap_or_default()
    }

    /// Returns true if a directory can have an entry with the last name.
    pub(super) fn has_proper_name(&self) -> bool {
        !matches!(self.name(), b"" | b"." | b"..")
    }

    /// Returns the inode that the path leads to.
    ///
    /// # Errors
    ///
    /// `ENOENT`; `ENOTDIR` if a slash follows the last name and the inode is not a directory.
    pub(super) fn existing(self) -> Result<Arc<Node<S>>, Errno> {
        self.check_existing()?;
        self.node.ok_or(Errno::ENOENT)
    }

    /// Checks that [`Self::existing`] returns an inode.
    pub(super) fn check_existing(&self) -> Result<(), Errno> {
        let node = self.node.as_ref().ok_or(Errno::ENOENT)?;
        if self.has_slash && !node.is_directory() { Err(Errno::ENOTDIR) } else { Ok(()) }
    }
}

/// A walk in progress.
struct Walk<'p, S: System> {
    path: Cow<'p, [u8]>,
    /// Number of bytes of the path that have been walked.
    position: usize,
    directory: Arc<Node<S>>,
    links: u32,
}

impl<S: System> Walk<'_, S> {
    /// Takes the next name from the path. The result is empty at the end of the path.
    fn next_name(&mut self) -> Range<usize> {
        let rest = self.path.get(self.position..).unwrap_or_default();
        let start = self.position + rest.iter().take_while(|byte| **byte == b'/').count();
        let rest = self.path.get(start..).unwrap_or_default();
        self.position = start + rest.iter().take_while(|byte| **byte != b'/').count();
        start..self.position
    }

    /// Returns true if no further name follows.
    fn is_last(&self) -> bool {
        self.path.get(self.position..).unwrap_or_default().iter().all(|byte| *byte == b'/')
    }

    fn has_slash(&self) -> bool {
        self.position < self.path.len()
    }

    /// The inode of a name in the current directory.
    async fn step(&self, vfs: &Vfs<S>, name: &[u8]) -> Result<Arc<Node<S>>, Errno> {
        if !self.directory.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        match name {
            b"" | b"." => Ok(Arc::clone(&self.directory)),
            b".." => self.directory.parent().await,
            _ if name.len() > MAX_NAME => Err(Errno::ENAMETOOLONG),
            _ => vfs.lookup(&self.directory, name).await,
        }
    }

    /// Continues with the target of a symbolic link, followed by the rest of the path.
    async fn follow(&mut self, vfs: &Vfs<S>, link: &Node<S>) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        let mut path = Vec::new();
        complete(|call| link.file_system().readlink(call, link.ino, &mut path)).await?;
        // As on Linux, the limit applies to the target alone, not to the target with the rest of the path.
        if path.len() > MAX_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        let rest = self.path.get(self.position..).unwrap_or_default();
        path.try_reserve(rest.len()).map_err(|_| Errno::ENOMEM)?;
        path.extend_from_slice(rest);
        if path.first() == Some(&b'/') {
            self.directory = Arc::clone(&vfs.root);
        }
        self.path = Cow::Owned(path);
        self.position = 0;
        Ok(())
    }
}

/// Returns the length of a path without its last name, but with the slash before the last name.
fn length_of_directories(path: &[u8]) -> usize {
    let is_slash = |byte: &u8| *byte == b'/';
    let end = path.iter().rposition(|byte| !is_slash(byte)).map_or(0, |last| last + 1);
    path.get(..end).and_then(|path| path.iter().rposition(is_slash)).map_or(0, |slash| slash + 1)
}

impl<S: System> Vfs<S> {
    /// The inode of a name in a directory, or the root of the file system that is mounted on it.
    async fn lookup(&self, directory: &Arc<Node<S>>, name: &[u8]) -> Result<Arc<Node<S>>, Errno> {
        if !directory.mount.has_validity() {
            return directory.lookup(name).await;
        }
        let node = match self.names.find(directory, name) {
            Known::Name(node) => node,
            Known::Nothing(lookup) => {
                let found = match directory.ask_and_keep(name).await {
                    // `make_room` empties the name cache, since cached names use memory and inodes of the
                    // server.
                    Err(error) if self.make_room(error) => directory.ask_and_keep(name).await,
                    found => found,
                };
                let (node, validity) = found?;
                if node.as_ref().is_some_and(|node| !node.is_directory()) {
                    directory.mount.listings.note_request();
                }
                self.names.insert(lookup, (directory, name), node.as_ref(), validity);
                node
            }
        };
        node.ok_or(Errno::ENOENT)?.or_mounted()
    }

    /// Updates the caches after a call has changed a name. Removes the name, the attributes of its directory,
    /// and the attributes of `node`, the inode that the name leads to or has led to.
    pub(super) fn forget_name(&self, directory: &Node<S>, name: &[u8], node: Option<&Node<S>>) {
        if directory.mount.has_validity() {
            self.names.remove(directory, name);
            directory.mount.forget_attr(directory.ino);
            if let Some(node) = node {
                node.mount.forget_attr(node.ino);
            }
        }
    }

    /// Returns the directory at which a path begins.
    fn start_of(&self, path: &[u8]) -> Arc<Node<S>> {
        if path.first() == Some(&b'/') { Arc::clone(&self.root) } else { self.current_directory() }
    }

    /// Returns the directory of a path's last name and the position of that name, if the file system can walk
    /// to the directory in one step. Otherwise, returns the directory at which the path begins and the
    /// position 0.
    fn walk_directories(&self, path: &[u8]) -> Result<(Arc<Node<S>>, usize), Errno> {
        let (start, length) = (self.start_of(path), length_of_directories(path));
        let directories = path.get(..length).filter(|path| path.iter().any(|byte| *byte != b'/'));
        match directories.and_then(|path| start.lookup_path(path)) {
            Some(found) => Ok((Node::of_found(&start.mount, found.inode)?, length)),
            None => Ok((start, 0)),
        }
    }

    /// Walks a path, from the root or the current directory, to its last name.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the path is empty, or a directory of it does not exist; `EINVAL` if it has a zero byte;
    /// `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, or an error of the file system.
    pub(super) async fn walk<'p>(&self, path: &'p [u8], last: LastLink) -> Result<Walked<'p, S>, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        if path.contains(&0) {
            return Err(Errno::EINVAL);
        }
        if path.len() > MAX_PATH {
            return Err(Errno::ENAMETOOLONG);
        }
        // A file system in memory may walk all directories in one step. Otherwise the walk starts at the
        // first name.
        let (directory, position) = self.walk_directories(path)?;
        let mut walk = Walk { path: Cow::Borrowed(path), position, directory, links: 0 };
        loop {
            let name = walk.next_name();
            let is_last = walk.is_last();
            let found = walk.step(self, walk.path.get(name.clone()).unwrap_or_default()).await;
            let has_slash = walk.has_slash();
            let node = match found {
                Ok(node) if node.file_type == FileType::Symlink && (!is_last || last.follows(has_slash)) => {
                    walk.follow(self, &node).await?;
                    continue;
                }
                Ok(node) => Some(node),
                // A missing last name is not an error of the walk: the call may create the name.
                Err(Errno::ENOENT) if is_last => None,
                Err(error) => return Err(error),
            };
            match node {
                Some(node) if !is_last => walk.directory = node,
                node => return Ok(Walked { parent: walk.directory, node, has_slash, path: walk.path, name }),
            }
        }
    }
}
