//! Synchronisation: the lock trait, which the user of this crate implements, and atomics, which are loom's in the
//! models.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence},
};

#[cfg(not(loom))]
pub(crate) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence},
};

/// A link of a timer. An owner may insert its timer again as soon as it is no longer queued, so in the models loom
/// may switch between two accesses.
#[cfg(not(loom))]
pub(crate) type TimerLink<T> = crate::thread::Link<T>;

/// A link of a timer, between whose accesses loom may switch.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct TimerLink<T: 'static> {
    target: crate::thread::Link<T>,
    /// Accessed with each access to `target`: loom switches only at atomics of its own.
    accesses: AtomicU32,
}

#[cfg(loom)]
impl<T> TimerLink<T> {
    pub(crate) fn new(target: Option<&'static T>) -> Self {
        Self { target: crate::thread::Link::new(target), accesses: AtomicU32::new(0) }
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

/// A lock around a value.
pub trait Lock<T>: Sync {
    /// Calls `action` with the locked value.
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R;
}

#[cfg(test)]
#[cfg(not(loom))]
impl<T: Send> Lock<T> for std::sync::Mutex<T> {
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.lock().unwrap())
    }
}

#[cfg(test)]
#[cfg(loom)]
impl<T: Send> Lock<T> for loom::sync::Mutex<T> {
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.lock().unwrap())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
extern crate std;
