//! loom's types.

extern crate std;

use core::fmt;
use core::marker::PhantomData;
use std::sync::PoisonError;

use loom::sync::MutexGuard;

pub use loom::cell::UnsafeCell;
pub use loom::hint::spin_loop;
#[cfg(feature = "alloc")]
pub use loom::sync::Arc;
pub use loom::sync::atomic;

use crate::lock::Lock;

/// loom's lock in place of one of type `R`.
pub struct Mutex<R, T>(loom::sync::Mutex<T>, PhantomData<fn() -> R>);

impl<R, T> Mutex<R, T> {
    /// Creates an unlocked mutex.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value), PhantomData)
    }

    /// Creates an unlocked mutex in place of one with this raw lock.
    pub fn const_new(_raw: R, value: T) -> Self {
        Self::new(value)
    }

    /// Locks the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // The lock is poisoned only in a model that has failed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, T> fmt::Debug for Mutex<R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: Send> Lock<T> for loom::sync::Mutex<T> {
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A point at which the models may switch threads. loom switches threads only at accesses to its own types,
/// so passing the point is such an access.
#[derive(Debug, Default)]
pub struct SwitchPoint(atomic::AtomicU32);

impl SwitchPoint {
    /// Creates a point.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes the point.
    pub fn pass(&self) {
        self.0.fetch_add(1, atomic::Ordering::AcqRel);
    }
}

/// Defines a function that is `const` outside of the models. loom's types cannot be made in constants.
#[macro_export]
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis const fn $($function:tt)*) => {
        $(#[$attribute])*
        $visibility fn $($function)*
    };
}

/// Creates an array of `$count` values of an expression.
#[macro_export]
macro_rules! const_array {
    ($value:expr; $count:expr) => {
        core::array::from_fn::<_, { $count }, _>(|_| $value)
    };
}
