//! A cache of whole paths: it finds the inode that a recently used path leads to without a walk.
//!
//! The [name cache](super::name_cache) is the truth about names. This cache only saves the steps from name to
//! name, so its entries have weak references, and nothing need be removed from it. An entry is valid as long
//! as all of the following holds:
//!
//! - The node at the end of the path is in the name cache. A change of this name takes it out.
//! - Nothing was renamed or mounted since the walk ([`PathCache::changes`]): either may concern any path. A
//!   directory of the path cannot be removed by this machine, since it is not empty. Where another machine
//!   may have emptied it, its removal counts as well.
//! - The first of its names to expire has not expired.
//!
//! A path is stored only if no symbolic link and no `..` was in it, and if no slash follows the last name. So
//! an entry is right for calls that follow symbolic links and for those that do not.

use alloc::sync::{Arc, Weak};
use core::fmt::Debug;

use hermit_base::sync::IS_MODEL;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use super::change_count::{Change, ChangeCount, Unchanged};
use super::name_cache::is_expired;
use super::node::Node;
use crate::interface::System;
use crate::interface::short_string::{Digest, MAX_INLINE_LEN};
use crate::interface::system::{Lock, allocated};

/// Number of entries. The models have few, so that paths replace each other.
const SIZE: usize = if IS_MODEL { 2 } else { 128 };

/// Maximum length in bytes of a path in the cache.
const MAX_LENGTH: usize = 128;

/// A path, and the directory at which it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFrom<'a> {
    /// Number of the directory at which the path begins ([`Current`](super::Current)); 0 for the root.
    pub(super) start: u64,
    /// Names, separated by slashes.
    pub(super) path: &'a [u8],
}

/// A node that a path leads to.
#[derive(Clone, Debug)]
pub(super) struct FoundPath<S: System> {
    pub(super) node: Arc<Node<S>>,
    /// Time of the [clock](System::monotonic) at which the first name of the path expires.
    pub(super) deadline: u64,
}

#[derive(Debug)]
struct Entry<S: System> {
    start: u64,
    digest: Digest,
    /// The path, if the digest does not identify it.
    path: [u8; MAX_LENGTH],
    changes: Unchanged,
    deadline: u64,
    node: Weak<Node<S>>,
}

impl<S: System> Entry<S> {
    #[inline]
    fn is(&self, from: PathFrom<'_>, digest: Digest) -> bool {
        self.start == from.start
            && self.digest == digest
            && (digest.length() <= MAX_INLINE_LEN || self.path.starts_with(from.path))
    }
}

/// An entry with its lock; `None` until a path is stored.
type Place<S> = [Lock<S, Option<Entry<S>>>; 1];

/// The cache of paths.
#[derive(Debug)]
pub(super) struct PathCache<S: System> {
    /// The hash of a path gives the index of its entry. An entry is allocated when it is first used.
    places: [OnceBox<Place<S>>; SIZE],
    /// Counts renames, mounts, and removals of directories on servers.
    changes: ChangeCount,
}

impl<S: System> PathCache<S> {
    pub(super) fn new() -> Self {
        Self { places: [const { OnceBox::new() }; SIZE], changes: ChangeCount::new() }
    }

    /// Begins a change that may concern any path.
    pub(super) fn begin_change(&self) -> Change<'_> {
        self.changes.begin()
    }

    /// Returns the count of changes before a walk, for [`Self::insert`].
    #[inline]
    pub(super) fn unchanged(&self) -> Option<Unchanged> {
        self.changes.unchanged()
    }

    /// Returns true if no such change has begun since `before`.
    pub(super) fn is_still(&self, before: Unchanged) -> bool {
        self.changes.is_still(before)
    }

    #[inline(always)]
    fn place(&self, digest: Digest) -> &OnceBox<Place<S>> {
        &self.places[digest.index(0, SIZE)]
    }

    /// Finds the node of a path.
    #[inline(always)]
    pub(super) fn find(&self, from: PathFrom<'_>) -> Option<FoundPath<S>> {
        let digest = Digest::of(from.path);
        let [lock] = self.place(digest).get()?;
        let place = lock.lock();
        let entry = place.as_ref()?;
        if !entry.is(from, digest) || !self.changes.is_still(entry.changes) {
            return None;
        }
        let (node, deadline) = (entry.node.upgrade()?, entry.deadline);
        // The node is dropped without the lock if it is not valid.
        drop(place);
        (node.is_named() && !is_expired::<S>(deadline)).then_some(FoundPath { node, deadline })
    }

    /// Removes all paths. Their references keep the memory of nodes, but not the inodes.
    pub(super) fn clear(&self) {
        for [lock] in self.places.iter().filter_map(OnceBox::get) {
            let removed = lock.lock().take();
            drop(removed);
        }
    }

    /// Stores the node of a path in place of another path, if the name of the node is cached. `before` is the
    /// count of changes before the walk that has found the node.
    #[inline(never)]
    pub(super) fn insert(&self, from: PathFrom<'_>, before: Unchanged, found: &FoundPath<S>) {
        let mut path = [0; MAX_LENGTH];
        let Some(start) = path.get_mut(..from.path.len()).filter(|_| found.node.is_named()) else { return };
        start.copy_from_slice(from.path);
        let digest = Digest::of(from.path);
        let [lock] = allocated(self.place(digest), || Mutex::new(None)) else { return };
        let entry = Entry {
            start: from.start,
            digest,
            path,
            changes: before,
            deadline: found.deadline,
            node: Arc::downgrade(&found.node),
        };
        let replaced = lock.lock().replace(entry);
        drop(replaced);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::sync::Arc;
    use std::vec;

    use super::{FoundPath, MAX_LENGTH, PathCache, PathFrom};
    use crate::interface::types::FOREVER;
    use crate::testing::{TestSystem, vfs};

    const fn from(path: &[u8]) -> PathFrom<'_> {
        PathFrom { start: 0, path }
    }

    #[test]
    fn path_of_any_length_is_found_if_no_byte_differs() {
        let (_, vfs) = vfs(1 << 20);
        let cache: PathCache<TestSystem> = PathCache::new();
        let found = FoundPath { node: Arc::clone(&vfs.root), deadline: FOREVER };
        for length in 1..=MAX_LENGTH + 1 {
            let mut path = vec![b'a'; length];
            cache.insert(from(&path), cache.unchanged().unwrap(), &found);
            assert_eq!(cache.find(from(&path)).is_some(), length <= MAX_LENGTH, "{length}");
            assert!(cache.find(PathFrom { start: 7, path: &path }).is_none());
            for index in 0..length {
                path[index] = b'b';
                assert!(cache.find(from(&path)).is_none(), "byte {index} of {length}");
                path[index] = b'a';
            }
        }
    }

    #[test]
    fn path_is_not_found_during_and_after_a_change_of_directories() {
        let (_, vfs) = vfs(1 << 20);
        let cache: PathCache<TestSystem> = PathCache::new();
        let found = FoundPath { node: Arc::clone(&vfs.root), deadline: FOREVER };
        let before = cache.unchanged().unwrap();
        cache.insert(from(b"a"), before, &found);
        assert!(cache.find(from(b"a")).is_some());
        let change = cache.begin_change();
        assert!(cache.find(from(b"a")).is_none());
        drop(change);
        // This is the end of a walk that began before the change.
        cache.insert(from(b"a"), before, &found);
        assert!(cache.find(from(b"a")).is_none());
    }
}
