//! Synchronisation: the lock trait, which the user of this crate implements, and the atomics. In the models
//! the atomics are loom's.

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
