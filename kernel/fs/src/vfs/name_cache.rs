//! The name cache, a small version of Linux's dcache: it keeps the inodes of names, for as long as the file
//! systems say that they are valid.
//!
//! The hash of a name selects its bucket. Each bucket has a lock of its own, so there is no global lock, and
//! holds the most recently used names. An entry may also say that a name does not exist.
//!
//! The reply to a lookup may be older than a change of the name that this machine has made since the request.
//! So each bucket counts changes by this machine. A reply is not stored if the count has changed since the
//! request.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::hash::BuildHasher as _;
use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hashbrown::DefaultHashBuilder;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use super::mount::Node;
use crate::System;
use crate::system::{Lock, allocated, copied};

/// Number of buckets.
const BUCKETS: usize = 128;

/// Maximum number of names in a bucket. It is small because a cached name keeps inodes in use, and a server
/// may have few inodes.
const WAYS: usize = 4;

/// The cached names of all mounts.
#[derive(Debug)]
pub(super) struct NameCache<S: System> {
    /// Allocated when the first name is stored.
    buckets: OnceBox<Buckets<S>>,
    /// Number of changes of names by this machine, in all buckets.
    changes: AtomicU64,
    hasher: DefaultHashBuilder,
}

type Buckets<S> = [Lock<S, Bucket<S>>; BUCKETS];

#[derive(Debug)]
struct Bucket<S: System> {
    /// Number of changes of names by this machine.
    changes: u64,
    /// The names, the most recently used one first.
    names: [Option<CachedName<S>>; WAYS],
}

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
    /// The inode of the name; `None` if the name does not exist.
    Name(Option<Arc<Node<S>>>),
    /// The name is not cached and must be looked up.
    Nothing(Lookup),
}

/// A lookup in progress, with the number of changes and the time at its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    bucket: usize,
    changes: u64,
    started: u64,
}

/// A listing in progress, with the number of changes and the time at its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingStart {
    changes: u64,
    started: u64,
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

impl<S: System> CachedName<S> {
    fn is(&self, directory: &Node<S>, name: &[u8]) -> bool {
        self.directory.is_same(directory) && *self.name == *name
    }
}

impl<S: System> Bucket<S> {
    fn position(&self, directory: &Node<S>, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|cached| cached.as_ref().is_some_and(|cached| cached.is(directory, name)))
    }

    /// Takes a name out of the bucket. The caller drops the name after it has released the lock.
    fn take(&mut self, directory: &Node<S>, name: &[u8]) -> Option<CachedName<S>> {
        let position = self.position(directory, name)?;
        self.names.get_mut(position)?.take()
    }

    /// Inserts a name as the most recently used one. If there is no room, removes and returns the least
    /// recently used name.
    fn put_first(&mut self, mut cached: Option<CachedName<S>>) -> Option<CachedName<S>> {
        for place in &mut self.names {
            mem::swap(place, &mut cached);
            if cached.is_none() {
                break;
            }
        }
        cached
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
        let free = self.names.iter().position(is_free);
        let is_older = |place: &Option<CachedName<S>>| !place.as_ref().is_some_and(is_unused);
        let place = free.or_else(|| self.names.iter().rposition(is_older).filter(|place| *place > 0));
        match place.and_then(|place| self.names.get_mut(place)) {
            Some(place) => (place.replace(cached), Listed::Done),
            None => (Some(cached), Listed::NoRoom),
        }
    }
}

impl<S: System> NameCache<S> {
    pub(super) fn new() -> Self {
        Self { buckets: OnceBox::new(), changes: AtomicU64::new(0), hasher: DefaultHashBuilder::default() }
    }

    /// Returns the buckets. The first call allocates them. Without memory, the result is empty.
    fn buckets(&self) -> &[Lock<S, Bucket<S>>] {
        let new = || Mutex::new(Bucket { changes: 0, names: [const { None }; WAYS] });
        allocated(&self.buckets, new)
    }

    fn bucket_of(&self, directory: &Node<S>, name: &[u8]) -> usize {
        // The remainder is below the number of buckets, so the conversion cannot fail.
        let key = (directory.mount.device, directory.ino.0, name);
        usize::try_from(self.hasher.hash_one(key) % BUCKETS as u64).unwrap_or(0)
    }

    /// Looks for a name in a directory.
    pub(super) fn find(&self, directory: &Arc<Node<S>>, name: &[u8]) -> Known<S> {
        let now = S::monotonic();
        let bucket = self.bucket_of(directory, name);
        let mut lookup = Lookup { bucket, changes: 0, started: now };
        let Some(lock) = self.buckets().get(bucket) else { return Known::Nothing(lookup) };
        let mut names = lock.lock();
        lookup.changes = names.changes;
        let Some(mut cached) = names.take(directory, name) else { return Known::Nothing(lookup) };
        // After a directory was moved, cached nodes of its subdirectories may still have the old node of the
        // directory as their parent. From the old node, `..` would lead to the directory that it was moved
        // from.
        let is_valid = now < cached.deadline
            && cached.node.as_ref().is_none_or(|node| node.is_directly_below(directory));
        if !is_valid {
            drop(names);
            drop(cached);
            return Known::Nothing(lookup);
        }
        let node = cached.node.clone();
        let is_first_use = mem::take(&mut cached.is_listed);
        // `put_first` returns `None`, because taking the name out has left room for it.
        let none = names.put_first(Some(cached));
        drop(names);
        drop(none);
        // Only the use of a file counts: a program that opens subdirectories does not necessarily look at
        // files.
        if is_first_use && node.as_ref().is_some_and(|node| !node.is_directory()) {
            directory.mount.listings.note_use();
        }
        Known::Name(node)
    }

    /// Notes the start of a listing. Called before the directory is read.
    pub(super) fn start_listing(&self) -> ListingStart {
        ListingStart { changes: self.changes.load(Acquire), started: S::monotonic() }
    }

    /// Returns true if the cache already has a name that a listing has found.
    pub(super) fn is_kept(&self, start: ListingStart, directory: &Node<S>, name: &[u8]) -> bool {
        let Some(lock) = self.buckets().get(self.bucket_of(directory, name)) else { return false };
        let bucket = lock.lock();
        let cached =
            bucket.position(directory, name).and_then(|position| bucket.names.get(position)?.as_ref());
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
        let deadline = start.started.saturating_add(validity);
        let lock = self.buckets().get(self.bucket_of(directory, name));
        let (Some(lock), Ok(copy)) = (lock, copied(name)) else { return Listed::NoRoom };
        let name = copy.into_boxed_slice();
        let cached = CachedName {
            directory: Arc::clone(directory),
            name,
            node: Some(node),
            deadline,
            is_listed: true,
        };
        let mut bucket = lock.lock();
        let (dropped, result) = if self.changes.load(Acquire) == start.changes {
            bucket.add_listed(cached, start.started)
        } else {
            (Some(cached), Listed::Done)
        };
        drop(bucket);
        drop(dropped);
        result
    }

    /// Stores the inode of a name. It stays valid for `validity` nanoseconds after the start of the lookup.
    pub(super) fn insert(
        &self,
        lookup: Lookup,
        (directory, name): (&Arc<Node<S>>, &[u8]),
        node: Option<&Arc<Node<S>>>,
        validity: u64,
    ) {
        if validity == 0 {
            return;
        }
        let (Some(lock), Ok(copy)) = (self.buckets().get(lookup.bucket), copied(name)) else { return };
        let cached = CachedName {
            directory: Arc::clone(directory),
            name: copy.into_boxed_slice(),
            node: node.cloned(),
            deadline: lookup.started.saturating_add(validity),
            is_listed: false,
        };
        let mut bucket = lock.lock();
        let removed = if bucket.changes == lookup.changes {
            let before = bucket.take(directory, name);
            (before, bucket.put_first(Some(cached)))
        } else {
            (None, Some(cached))
        };
        drop(bucket);
        drop(removed);
    }

    /// Removes a name, after this machine has changed it.
    pub(super) fn remove(&self, directory: &Node<S>, name: &[u8]) {
        let Some(lock) = self.buckets().get(self.bucket_of(directory, name)) else { return };
        // The change is counted before the lock is taken. So a concurrent listing either sees the new count,
        // or has already inserted its name, which is removed below.
        self.changes.fetch_add(1, Release);
        let mut bucket = lock.lock();
        bucket.changes += 1;
        let removed = bucket.take(directory, name);
        drop(bucket);
        drop(removed);
    }

    /// Removes all names.
    pub(super) fn clear(&self) {
        for lock in self.buckets.get().map_or(&[][..], |buckets| buckets) {
            let removed = mem::replace(&mut lock.lock().names, [const { None }; WAYS]);
            drop(removed);
        }
    }
}
