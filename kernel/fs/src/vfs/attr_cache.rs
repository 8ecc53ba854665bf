//! Attributes of inodes of a mount, for as long as its file system says that they may be kept.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_interface::to_usize;
use lock_api::Mutex;
use once_cell::race::OnceBox;

use crate::system::{Lock, allocated};
use crate::{Attr, Ino, System};

/// Number of inodes whose attributes are kept; each has the place of its number modulo this.
const PLACES: usize = 512;

/// Attributes by number of the inode.
///
/// A reply may be older than a change that this machine has made meanwhile. So changes are counted, and what
/// was asked for before a change is not kept.
#[derive(Debug)]
pub(super) struct AttrCache<S: System> {
    /// Allocated for the first attributes that may be kept.
    places: OnceBox<[Place<S>; PLACES]>,
    /// Number of changes by this machine.
    changes: AtomicU64,
}

/// Attributes, and the time of the [clock](System::monotonic) from which on they are not valid.
type Place<S> = Lock<S, Option<(Attr, u64)>>;

/// A request for attributes that was begun at a time.
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

    /// To be called before attributes are asked for.
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

    /// Keeps attributes. The caller refers to the inode.
    pub(super) fn insert(&self, request: AttrRequest, attr: &Attr) {
        if attr.validity == 0 {
            return;
        }
        allocated(&self.places, || Mutex::new(None));
        let Some(place) = self.place(attr.ino) else { return };
        let mut cached = place.lock();
        // A change counts before it takes the lock: it is counted here, or removes what is stored here.
        if self.changes.load(Acquire) == request.changes {
            *cached = Some((*attr, request.started.saturating_add(attr.validity)));
        }
    }

    /// Forgets the attributes of an inode, after this machine has changed it.
    pub(super) fn remove(&self, ino: Ino) {
        self.changes.fetch_add(1, Release);
        self.forget(ino);
    }

    /// Forgets the attributes of an inode, since a reference to it ends: its number may be that of another
    /// inode afterwards.
    pub(super) fn forget(&self, ino: Ino) {
        if let Some(place) = self.place(ino) {
            let mut cached = place.lock();
            if cached.is_some_and(|(attr, _)| attr.ino == ino) {
                *cached = None;
            }
        }
    }
}
