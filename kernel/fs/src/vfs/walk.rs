//! Path walks. A walk starts with a path, and finds the directory of the path's last name and the inode of
//! that name.
//!
//! The path cache may have the whole path, or its directory. Otherwise the walk goes from name to name. For
//! each name, it looks into the name cache, and asks the file system if the cache does not have the name. It
//! crosses mount points. It follows a symbolic link by putting the link's target in front of the rest of the
//! path. The last name is special: some calls follow a symbolic link there and some do not ([`LastLink`]).
//! The last name need not exist, because some calls create it.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use hermit_base::try_alloc::try_extend;
use hermit_interface::{Errno, MAX_NAME, MAX_PATH};

use super::Vfs;
use super::change_count::Unchanged;
use super::name_cache::{Known, NameChange, deadline};
use super::node::Node;
use super::path_cache::{FoundPath, PathCache, PathFrom};
use super::path_names::{is_proper, last_slash};
use crate::interface::file_system::complete;
use crate::interface::types::FOREVER;
use crate::interface::{FileType, System};

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
        is_proper(self.name())
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
    /// Time at which the first of the names that led to the directory expires.
    deadline: u64,
    /// Number of the directory at which the walk began ([`PathFrom::start`]).
    start: u64,
    /// Count of changes of directories before the walk. `None` if the path is not to be cached.
    before: Option<Unchanged>,
    /// True if the directory of the last name was in the path cache.
    is_cached: bool,
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

    /// Returns the inode of a name in the current directory, with the deadline of the path to it.
    async fn step(&mut self, vfs: &Vfs<S>, name: Range<usize>) -> Result<FoundPath<S>, Errno> {
        let deadline = self.deadline;
        match self.path.get(name).unwrap_or_default() {
            b"" | b"." => Ok(FoundPath { node: Arc::clone(&self.directory), deadline }),
            b".." => {
                self.before = None;
                Ok(FoundPath { node: self.directory.parent().await?, deadline })
            }
            name => {
                let found = vfs.lookup(&self.directory, name).await?;
                Ok(FoundPath { deadline: deadline.min(found.deadline), ..found })
            }
        }
    }

    /// Stores the path of the last directory and the whole path in the path cache. `last` is the last name
    /// and what it leads to.
    fn keep_path(&self, paths: &PathCache<S>, name: &Range<usize>, last: Option<&FoundPath<S>>) {
        let Some(before) = self.before else { return };
        let keep = |path: &[u8], found: &FoundPath<S>| {
            paths.insert(PathFrom { start: self.start, path }, before, found);
        };
        if !self.is_cached
            && let Some(path) = directory_of(&self.path)
        {
            let node = Arc::clone(&self.directory);
            keep(path, &FoundPath { node, deadline: self.deadline });
        }
        // A slash at the end is an error if the path leads to a file.
        if let Some(found) = last
            && !self.has_slash()
            && found.node.file_type != FileType::Symlink
            && is_proper(self.path.get(name.clone()).unwrap_or_default())
        {
            keep(&self.path, found);
        }
    }

    /// Continues with the target of a symbolic link, followed by the rest of the path.
    async fn follow(&mut self, vfs: &Vfs<S>, link: &Node<S>) -> Result<(), Errno> {
        self.links += 1;
        self.before = None;
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
        try_extend(&mut path, rest)?;
        if path.first() == Some(&b'/') {
            self.directory = Arc::clone(&vfs.root);
        }
        self.path = Cow::Owned(path);
        self.position = 0;
        Ok(())
    }
}

/// Returns the path of the directory of a path's last name, without the slash at its end. Returns `None` if
/// the path has only one name, or if a slash follows the last name.
fn directory_of(path: &[u8]) -> Option<&[u8]> {
    if path.ends_with(b"/") {
        return None;
    }
    let slash = last_slash(path).filter(|slash| *slash > 0)?;
    path.get(..slash)
}

impl<S: System> Vfs<S> {
    /// Returns the inode of a name in a directory, or the root of the file system that is mounted on it.
    async fn lookup(&self, directory: &Arc<Node<S>>, name: &[u8]) -> Result<FoundPath<S>, Errno> {
        let (node, deadline) = match self.names.find(directory, name) {
            Known::Name(node, deadline) => (node, deadline),
            Known::Nothing(lookup) => {
                let started = S::monotonic();
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
                let deadline = deadline(started, validity);
                if validity != 0 {
                    self.names.insert(lookup, (directory, name), node.as_ref(), deadline);
                }
                (node, deadline)
            }
        };
        Ok(FoundPath { node: node.ok_or(Errno::ENOENT)?.or_mounted(), deadline })
    }

    /// Ends a change of a name. Also removes the cached attributes of its directory, and those of `node`, the
    /// inode that the name leads to or has led to.
    pub(super) fn end_change(change: NameChange<'_, S>, directory: &Node<S>, node: Option<&Node<S>>) {
        directory.mount.forget_attr(directory.ino);
        for node in change.node().map(|node| &**node).into_iter().chain(node) {
            node.mount.forget_attr(node.ino);
        }
    }

    /// Begins a walk: at the directory of the path's last name if that is cached, or else at the directory at
    /// which the path begins.
    fn start_walk<'p>(&self, path: &'p [u8]) -> Walk<'p, S> {
        let before = self.paths.unchanged();
        let (root, start) = if path.first() == Some(&b'/') {
            (Arc::clone(&self.root), 0)
        } else {
            let current = self.current.lock();
            (Arc::clone(&current.directory), current.number)
        };
        let cached = directory_of(path).and_then(|directory| {
            let found = self.paths.find(PathFrom { start, path: directory })?;
            Some((found, directory.len()))
        });
        let is_cached = cached.is_some();
        let (found, position) = cached.unwrap_or((FoundPath { node: root, deadline: FOREVER }, 0));
        let FoundPath { node: directory, deadline } = found;
        Walk { path: Cow::Borrowed(path), position, directory, links: 0, deadline, start, before, is_cached }
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
        let mut walk = self.start_walk(path);
        loop {
            let name = walk.next_name();
            let is_last = walk.is_last();
            let has_slash = walk.has_slash();
            if !walk.directory.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            if name.len() > MAX_NAME {
                return Err(Errno::ENAMETOOLONG);
            }
            let found = match walk.step(self, name.clone()).await {
                Ok(FoundPath { node, .. })
                    if node.file_type == FileType::Symlink && (!is_last || last.follows(has_slash)) =>
                {
                    walk.follow(self, &node).await?;
                    continue;
                }
                Ok(found) => Some(found),
                // A missing last name is not an error of the walk: the call may create the name.
                Err(Errno::ENOENT) if is_last => None,
                Err(error) => return Err(error),
            };
            match found {
                Some(FoundPath { node, deadline }) if !is_last => {
                    (walk.directory, walk.deadline) = (node, deadline);
                }
                found => {
                    walk.keep_path(&self.paths, &name, found.as_ref());
                    let node = found.map(|found| found.node);
                    return Ok(Walked { parent: walk.directory, node, has_slash, path: walk.path, name });
                }
            }
        }
    }
}
