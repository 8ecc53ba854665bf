//! The name cache, a small version of Linux's dcache: it keeps the inodes of names, for as long as the file
//! systems say that they are valid.
//!
//! The hash of a name selects its bucket. Each bucket has a lock of its own, so there is no global lock, and
//! holds the most recently used names. An entry may also say that a name does not exist.
//!
//! A change of a name ([`NameCache::begin_change`]) takes the name out of the cache before the request is
//! made, and no reply to a lookup that overlaps with the change is stored. So the cache never knows a name
//! that this machine has changed since. Changes by other machines are seen when the validity ends.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::mem;
use core::sync::atomic::Ordering::SeqCst;

use hermit_base::sync::IS_MODEL;
use hermit_base::try_alloc::try_to_vec;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use super::change_count::{Change, ChangeCount, Unchanged};
use super::node::Node;
use crate::interface::System;
use crate::interface::file_system::Capabilities;
use crate::interface::short_string::Digest;
use crate::interface::system::{Lock, allocated, fence};
use crate::interface::types::FOREVER;

/// Number of buckets. The models have few, since loom tracks each of them.
const BUCKETS: usize = if IS_MODEL { 2 } else { 128 };

/// Maximum number of names in a bucket. It is small because a cached name keeps inodes in use, and a server
/// may have few inodes.
const WAYS: usize = 4;

/// Returns true if a deadline, a time of the [clock](System::monotonic), has passed.
#[inline]
pub(super) fn is_expired<S: System>(deadline: u64) -> bool {
    deadline != FOREVER && S::monotonic() >= deadline
}

/// The cached names of all mounts.
#[derive(Debug)]
pub(super) struct NameCache<S: System> {
    buckets: [Bucket<S>; BUCKETS],
}

#[derive(Debug)]
struct Bucket<S: System> {
    /// Counts changes by this machine.
    changes: ChangeCount,
    /// Allocated when the first name is stored.
    names: OnceBox<[Lock<S, Names<S>>; 1]>,
}

/// Names, the most recently used one first.
#[derive(Debug)]
struct Names<S: System>([Option<CachedName<S>>; WAYS]);

#[derive(Debug)]
struct CachedName<S: System> {
    /// The reference keeps the directory in use. Otherwise a server could give the directory's number to
    /// another directory, and this name would be found there.
    directory: Arc<Node<S>>,
    name: Box<[u8]>,
    /// The inode, or `None` if the name does not exist.
    node: Option<Arc<Node<S>>>,
    /// Time of the [clock](System::monotonic) at which the name becomes invalid.
    deadline: u64,
    /// True if a listing has added the name, and no lookup has found it since.
    is_listed: bool,
}

/// Result of looking for a name in the cache.
#[derive(Debug)]
pub(super) enum Known<S: System> {
    /// The inode of the name, or `None` if the name does not exist; and the time at which this becomes
    /// invalid.
    Name(Option<Arc<Node<S>>>, u64),
    /// The name is not cached and must be looked up.
    Nothing(Lookup),
}

/// A lookup in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    bucket: usize,
    /// Count of changes in the bucket at the start.
    before: Option<Unchanged>,
}

/// A listing in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingStart {
    /// Count of changes of names on the mount at the start.
    before: Option<Unchanged>,
    started: u64,
}

/// A change of a name in progress. Dropping it ends the change.
#[derive(Debug)]
pub(super) struct NameChange<'a, S: System> {
    _of_bucket: Change<'a>,
    _of_mount: Option<Change<'a>>,
    removed: Option<CachedName<S>>,
}

impl<S: System> NameChange<'_, S> {
    /// Returns the node that the cache had for the name.
    pub(super) fn node(&self) -> Option<&Arc<Node<S>>> {
        self.removed.as_ref()?.node.as_ref()
    }
}

/// Result of adding a name of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The name is cached, was cached already, or has changed meanwhile.
    Done,
    /// The name was not cached: it could only replace names of the same listing, or names that were used more
    /// recently.
    NoRoom,
}

/// Returns the deadline of a reply to a request that was made at `started`.
pub(super) const fn deadline(started: u64, validity: u64) -> u64 {
    started.saturating_add(validity)
}

impl<S: System> CachedName<S> {
    fn is(&self, directory: &Node<S>, name: &[u8]) -> bool {
        self.directory.is_same(directory) && *self.name == *name
    }
}

/// Marks the node of a name that is no longer cached. The lock of the bucket is held.
fn forget_node<S: System>(cached: Option<&CachedName<S>>) {
    if let Some(node) = cached.and_then(|cached| cached.node.as_ref()) {
        node.set_named(false);
    }
}

impl<S: System> Names<S> {
    const fn new() -> Self {
        Self([const { None }; WAYS])
    }

    fn position(&self, directory: &Node<S>, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|cached| cached.as_ref().is_some_and(|cached| cached.is(directory, name)))
    }

    /// Moves a name to the first place, and returns it.
    fn use_first(&mut self, directory: &Node<S>, name: &[u8]) -> Option<&mut CachedName<S>> {
        let position = self.position(directory, name)?;
        self.0.get_mut(..=position)?.rotate_right(1);
        self.0.first_mut()?.as_mut()
    }

    /// Removes a name. The caller drops it after it has released the lock.
    fn remove(&mut self, directory: &Node<S>, name: &[u8]) -> Option<CachedName<S>> {
        let position = self.position(directory, name)?;
        let removed = self.0.get_mut(position)?.take();
        forget_node(removed.as_ref());
        removed
    }

    /// Inserts a name as the most recently used one. If there is no room, removes and returns the least
    /// recently used name.
    fn put_first(&mut self, cached: CachedName<S>) -> Option<CachedName<S>> {
        if let Some(node) = &cached.node {
            node.set_named(true);
        }
        let mut moved = Some(cached);
        for place in &mut self.0 {
            mem::swap(place, &mut moved);
            if moved.is_none() {
                break;
            }
        }
        forget_node(moved.as_ref());
        moved
    }

    /// Adds a name of a listing unless the bucket already has it. The name gets an empty place, replaces an
    /// invalid name, or replaces a name that was used less recently than another one. It never replaces a
    /// name that the same listing has added, unless a lookup has found that name since. The caller drops the
    /// returned name after it has released the lock.
    fn add_listed(&mut self, cached: CachedName<S>, now: u64) -> (Option<CachedName<S>>, Listed) {
        if self.position(&cached.directory, &cached.name).is_some() {
            return (Some(cached), Listed::Done);
        }
        let is_unused = |other: &CachedName<S>| other.is_listed && other.directory.is_same(&cached.directory);
        let is_free =
            |place: &Option<CachedName<S>>| place.as_ref().is_none_or(|other| now >= other.deadline);
        let free = self.0.iter().position(is_free);
        let is_older = |place: &Option<CachedName<S>>| !place.as_ref().is_some_and(is_unused);
        let place = free.or_else(|| self.0.iter().rposition(is_older).filter(|place| *place > 0));
        match place.and_then(|place| self.0.get_mut(place)) {
            Some(place) => {
                forget_node(place.as_ref());
                if let Some(node) = &cached.node {
                    node.set_named(true);
                }
                (place.replace(cached), Listed::Done)
            }
            None => (Some(cached), Listed::NoRoom),
        }
    }
}

impl<S: System> Bucket<S> {
    fn new() -> Self {
        Self { changes: ChangeCount::new(), names: OnceBox::new() }
    }

    /// Returns the names, if any were stored.
    #[inline]
    fn names(&self) -> Option<&Lock<S, Names<S>>> {
        let [names] = self.names.get()?;
        Some(names)
    }

    /// Returns the names, for a change that is counted already. If it returns `None`, no insertion that
    /// overlaps with the change stores a name.
    #[inline]
    fn names_to_change(&self) -> Option<&Lock<S, Names<S>>> {
        self.names().or_else(|| {
            // Pairs with the fence of `names_to_insert`. Either the names are seen here, or the insertion
            // sees that the change has begun.
            fence(SeqCst);
            self.names()
        })
    }

    /// Returns the names. The first call allocates them. Returns `None` without memory. The caller checks the
    /// count of changes afterwards.
    fn names_to_insert(&self) -> Option<&Lock<S, Names<S>>> {
        let names = allocated(&self.names, || Mutex::new(Names::new())).first();
        // See `names_to_change`.
        fence(SeqCst);
        names
    }
}

impl<S: System> NameCache<S> {
    pub(super) fn new() -> Self {
        Self { buckets: core::array::from_fn(|_| Bucket::new()) }
    }

    #[inline(always)]
    fn bucket_of(directory: &Node<S>, name: &[u8]) -> usize {
        // Names that share a bucket only displace each other from the cache, so the hash need not be secret.
        Digest::of(name).index(directory.ino.0 ^ directory.mount.device, BUCKETS)
    }

    #[inline]
    fn bucket(&self, index: usize) -> &Bucket<S> {
        &self.buckets[index % BUCKETS]
    }

    /// Looks for a name in a directory.
    pub(super) fn find(&self, directory: &Arc<Node<S>>, name: &[u8]) -> Known<S> {
        let index = Self::bucket_of(directory, name);
        let bucket = self.bucket(index);
        let lookup = Lookup { bucket: index, before: bucket.changes.unchanged() };
        let Some(lock) = bucket.names() else { return Known::Nothing(lookup) };
        let mut names = lock.lock();
        let Some(cached) = names.use_first(directory, name) else { return Known::Nothing(lookup) };
        // After a directory was moved, cached nodes of its subdirectories may still have the old node of the
        // directory as their parent. From the old node, `..` would lead to the directory that it was moved
        // from.
        let is_current = cached.node.as_ref().is_none_or(|node| node.is_directly_below(directory));
        let (node, deadline) = (cached.node.clone(), cached.deadline);
        let is_first_use = mem::take(&mut cached.is_listed);
        drop(names);
        // The clock is read without the lock.
        if !is_current || is_expired::<S>(deadline) {
            let removed = lock.lock().remove(directory, name);
            drop(removed);
            return Known::Nothing(lookup);
        }
        // Only the use of a file counts: a program that opens subdirectories does not necessarily look at
        // files.
        if is_first_use && node.as_ref().is_some_and(|node| !node.is_directory()) {
            directory.mount.listings.note_use();
        }
        Known::Name(node, deadline)
    }

    /// Notes the start of a listing. Called before the directory is read.
    pub(super) fn start_listing(directory: &Node<S>) -> ListingStart {
        ListingStart { before: directory.mount.name_changes.unchanged(), started: S::monotonic() }
    }

    /// Returns true if the cache already has a name that a listing has found.
    pub(super) fn is_kept(&self, start: ListingStart, directory: &Node<S>, name: &[u8]) -> bool {
        let Some(lock) = self.bucket(Self::bucket_of(directory, name)).names() else { return false };
        let names = lock.lock();
        let cached = names.position(directory, name).and_then(|position| names.0.get(position)?.as_ref());
        cached.is_some_and(|cached| start.started < cached.deadline)
    }

    /// Stores the inode of a name of a listing, if there is room. It stays valid for `validity` nanoseconds
    /// after the start of the listing.
    pub(super) fn insert_listed(
        &self,
        start: ListingStart,
        (directory, name): (&Arc<Node<S>>, &[u8]),
        node: Arc<Node<S>>,
        validity: u64,
    ) -> Listed {
        let lock = self.bucket(Self::bucket_of(directory, name)).names_to_insert();
        let (Some(lock), Ok(copy)) = (lock, try_to_vec(name)) else { return Listed::NoRoom };
        let cached = CachedName {
            directory: Arc::clone(directory),
            name: copy.into_boxed_slice(),
            node: Some(node),
            deadline: deadline(start.started, validity),
            is_listed: true,
        };
        let mut names = lock.lock();
        // A change is counted before it takes the lock of the bucket to remove the name. So either the count
        // differs here, or the change removes the name that is added here.
        let is_unchanged = start.before.is_some_and(|before| directory.mount.name_changes.is_still(before));
        let (dropped, result) =
            if is_unchanged { names.add_listed(cached, start.started) } else { (Some(cached), Listed::Done) };
        drop(names);
        drop(dropped);
        result
    }

    /// Stores the inode of a name, which is valid until `deadline`.
    pub(super) fn insert(
        &self,
        lookup: Lookup,
        (directory, name): (&Arc<Node<S>>, &[u8]),
        node: Option<&Arc<Node<S>>>,
        deadline: u64,
    ) {
        let bucket = self.bucket(lookup.bucket);
        let (Some(lock), Ok(copy)) = (bucket.names_to_insert(), try_to_vec(name)) else { return };
        let cached = CachedName {
            directory: Arc::clone(directory),
            name: copy.into_boxed_slice(),
            node: node.cloned(),
            deadline,
            is_listed: false,
        };
        let mut names = lock.lock();
        let removed = if lookup.before.is_some_and(|before| bucket.changes.is_still(before)) {
            let before = names.remove(directory, name);
            (before, names.put_first(cached))
        } else {
            (None, Some(cached))
        };
        drop(names);
        drop(removed);
    }

    /// Begins a change of a name by this machine: removes the name, and keeps lookups from storing it until
    /// the change ends.
    pub(super) fn begin_change<'a>(&'a self, directory: &'a Node<S>, name: &[u8]) -> NameChange<'a, S> {
        let bucket = self.bucket(Self::bucket_of(directory, name));
        // The change is counted before the lock is taken: see `insert_listed`.
        let _of_bucket = bucket.changes.begin();
        // Only listings of servers look at the count of the mount.
        let mount = &directory.mount;
        let _of_mount = mount.has(Capabilities::ATTR_VALIDITY).then(|| mount.name_changes.begin());
        let removed = bucket.names_to_change().and_then(|lock| lock.lock().remove(directory, name));
        NameChange { _of_bucket, _of_mount, removed }
    }

    /// Removes all names.
    pub(super) fn clear(&self) {
        for lock in self.buckets.iter().filter_map(Bucket::names) {
            let mut names = lock.lock();
            names.0.iter().for_each(|cached| forget_node(cached.as_ref()));
            let removed = mem::replace(&mut *names, Names::new());
            drop(names);
            drop(removed);
        }
    }
}
