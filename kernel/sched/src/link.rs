//! References to threads: the links of lists, tables and timer heaps.

use crossbeam_utils::atomic::AtomicCell;

#[cfg(loom)]
use crate::sync::AtomicU32;

/// A reference to a thread, or none, that can be replaced atomically.
pub type Link<T> = AtomicCell<Option<&'static T>>;

/// A link of a timer. The owner of a timer may insert it again as soon as it is no longer queued. To test
/// this, loom may switch threads between two accesses in the models.
#[cfg(not(loom))]
pub(crate) type TimerLink<T> = Link<T>;

/// A link of a timer. Loom may switch threads between two accesses to it.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct TimerLink<T: 'static> {
    target: Link<T>,
    /// Accessed with each access to `target`, because loom switches threads only at its own atomics.
    accesses: AtomicU32,
}

#[cfg(loom)]
impl<T> TimerLink<T> {
    pub(crate) fn new(target: Option<&'static T>) -> Self {
        Self { target: Link::new(target), accesses: AtomicU32::new(0) }
    }

    pub(crate) fn load(&self) -> Option<&'static T> {
        self.accesses.fetch_add(1, core::sync::atomic::Ordering::AcqRel);
        self.target.load()
    }

    pub(crate) fn store(&self, target: Option<&'static T>) {
        self.accesses.fetch_add(1, core::sync::atomic::Ordering::AcqRel);
        self.target.store(target);
    }
}
