//! The name cache: where names lead, for as long as file systems say that it may be kept.
//!
//! A name belongs to one of the buckets, each of which has a lock of its own; so names are found without a lock of all. Each
//! bucket keeps the names that were used last.
//!
//! The reply to a lookup may be older than a change of the name that was made meanwhile. So each change by this machine
//! counts in the bucket, and what was looked up before a change is not kept.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::hash::BuildHasher as _;
use core::mem;

use hashbrown::DefaultHashBuilder;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use super::mount::Node;
use crate::System;
use crate::system::{Lock, allocated, copied};

/// Number of buckets.
const BUCKETS: usize = 32;

/// Maximum number of names in a bucket. A name keeps inodes in use, which a server may have few of.
const WAYS: usize = 4;

/// Where names lead.
#[derive(Debug)]
pub(super) struct NameCache<S: System> {
    /// Allocated for the first name that may be kept.
    buckets: OnceBox<Buckets<S>>,
    hasher: DefaultHashBuilder,
}

type Buckets<S> = [Lock<S, Bucket<S>>; BUCKETS];

#[derive(Debug)]
struct Bucket<S: System> {
    /// Number of changes of names by this machine.
    changes: u64,
    /// The name that was used last comes first.
    names: [Option<CachedName<S>>; WAYS],
}

#[derive(Debug)]
struct CachedName<S: System> {
    /// Kept in use: else a server may give its number to another directory, which is found by it then.
    directory: Arc<Node<S>>,
    name: Box<[u8]>,
    /// `None`: the name does not exist.
    node: Option<Arc<Node<S>>>,
    /// Time of the [clock](System::monotonic) from which on it is not valid.
    deadline: u64,
}

/// What is known of a name.
#[derive(Debug)]
pub(super) enum Known<S: System> {
    /// Where it leads; nowhere with `None`.
    Name(Option<Arc<Node<S>>>),
    /// The name is to be looked up.
    Nothing(Lookup),
}

/// A lookup that was begun at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    bucket: usize,
    changes: u64,
    started: u64,
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

    /// Takes a name out; the caller drops it without the lock.
    fn take(&mut self, directory: &Node<S>, name: &[u8]) -> Option<CachedName<S>> {
        let position = self.position(directory, name)?;
        self.names.get_mut(position)?.take()
    }

    /// Puts a name first; returns the one that was used least recently if there is no room for both.
    fn put_first(&mut self, mut cached: Option<CachedName<S>>) -> Option<CachedName<S>> {
        for place in &mut self.names {
            mem::swap(place, &mut cached);
            if cached.is_none() {
                break;
            }
        }
        cached
    }
}

impl<S: System> NameCache<S> {
    pub(super) fn new() -> Self {
        Self { buckets: OnceBox::new(), hasher: DefaultHashBuilder::default() }
    }

    /// The buckets, allocated if need be; none without memory.
    fn buckets(&self) -> &[Lock<S, Bucket<S>>] {
        let new = || Mutex::new(Bucket { changes: 0, names: [const { None }; WAYS] });
        allocated(&self.buckets, new)
    }

    fn bucket_of(&self, directory: &Node<S>, name: &[u8]) -> usize {
        // A remainder below the number of buckets.
        let key = (directory.mount.device, directory.ino.0, name);
        usize::try_from(self.hasher.hash_one(key) % BUCKETS as u64).unwrap_or(0)
    }

    /// What is known of a name in a directory.
    pub(super) fn find(&self, directory: &Arc<Node<S>>, name: &[u8]) -> Known<S> {
        let now = S::monotonic();
        let bucket = self.bucket_of(directory, name);
        let mut lookup = Lookup { bucket, changes: 0, started: now };
        let Some(lock) = self.buckets().get(bucket) else { return Known::Nothing(lookup) };
        let mut names = lock.lock();
        lookup.changes = names.changes;
        let Some(cached) = names.take(directory, name) else { return Known::Nothing(lookup) };
        // A directory that was moved is above what is in it by another node, which leads to another directory by `..`.
        let is_valid = now < cached.deadline
            && cached.node.as_ref().is_none_or(|node| node.is_directly_below(directory));
        if !is_valid {
            drop(names);
            drop(cached);
            return Known::Nothing(lookup);
        }
        let node = cached.node.clone();
        // There is room: the name has just been taken out.
        let none = names.put_first(Some(cached));
        drop(names);
        drop(none);
        Known::Name(node)
    }

    /// Keeps where a name leads, for a time in nanoseconds from the start of its lookup on.
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

    /// Forgets a name, after this machine has changed it.
    pub(super) fn remove(&self, directory: &Node<S>, name: &[u8]) {
        let Some(lock) = self.buckets().get(self.bucket_of(directory, name)) else { return };
        let mut bucket = lock.lock();
        bucket.changes += 1;
        let removed = bucket.take(directory, name);
        drop(bucket);
        drop(removed);
    }

    /// Forgets all names.
    pub(super) fn clear(&self) {
        for lock in self.buckets.get().map_or(&[][..], |buckets| buckets) {
            let removed = mem::replace(&mut lock.lock().names, [const { None }; WAYS]);
            drop(removed);
        }
    }
}
