//! A cache of the attributes of a mount's inodes, for as long as the file system says that they are valid.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_interface::to_usize;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use crate::interface::system::{Lock, allocated};
use crate::interface::{Attr, Ino, System};

/// Number of entries. An inode's entry is at the inode number modulo this.
const PLACES: usize = 512;

/// Attributes by inode number.
///
/// A reply of the file system may be older than a change that this machine has made since the request. So the
/// cache counts changes. It does not store a reply if the count has changed since the request.
#[derive(Debug)]
pub(super) struct AttrCache<S: System> {
    /// Allocated when the first attributes are stored.
    places: OnceBox<[Place<S>; PLACES]>,
    /// Number of changes by this machine.
    changes: AtomicU64,
}

/// Attributes, and the [time](System::monotonic) at which they become invalid.
type Place<S> = Lock<S, Option<(Attr, u64)>>;

/// A request for attributes, with the number of changes and the time at its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttrRequest {
    changes: u64,
    started: u64,
}

impl<S: System> AttrCache<S> {
    pub(super) const fn new() -> Self {
        Self { places: OnceBox::new(), changes: AtomicU64::new(0) }
    }

    fn place(&self, ino: Ino) -> Option<&Place<S>> {
        self.places.get()?.get(to_usize(ino.0) % PLACES)
    }

    /// Records the start of a request. The caller calls it before it asks the file system.
    pub(super) fn request(&self) -> AttrRequest {
        AttrRequest { changes: self.changes.load(Acquire), started: S::monotonic() }
    }

    /// The attributes of an inode, if they are still valid.
    pub(super) fn find(&self, ino: Ino) -> Option<Attr> {
        let place = self.place(ino)?;
        let now = S::monotonic();
        let cached = *place.lock();
        cached.filter(|(attr, deadline)| attr.ino == ino && now < *deadline).map(|(attr, _)| attr)
    }

    /// Stores attributes. The caller has a reference to the inode.
    pub(super) fn insert(&self, request: AttrRequest, attr: &Attr) {
        if attr.validity == 0 {
            return;
        }
        allocated(&self.places, || Mutex::new(None));
        let Some(place) = self.place(attr.ino) else { return };
        let mut cached = place.lock();
        // `remove` counts a change before it takes the lock of the entry. So either the load below sees the
        // change, or `remove` takes the lock later and removes this entry.
        if self.changes.load(Acquire) == request.changes {
            *cached = Some((*attr, request.started.saturating_add(attr.validity)));
        }
    }

    /// Removes the attributes of an inode, after this machine has changed it.
    pub(super) fn remove(&self, ino: Ino) {
        self.changes.fetch_add(1, Release);
        self.forget(ino);
    }

    /// Removes the attributes of an inode when a reference to the inode is dropped, since another inode may
    /// get the same number afterwards.
    pub(super) fn forget(&self, ino: Ino) {
        if let Some(place) = self.place(ino) {
            let mut cached = place.lock();
            if cached.is_some_and(|(attr, _)| attr.ino == ino) {
                *cached = None;
            }
        }
    }
}
