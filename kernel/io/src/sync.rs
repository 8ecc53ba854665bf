//! Locks and atomics. In the models, they are loom's.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(not(loom))]
pub(crate) use lock_api::Mutex as Lock;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicBool;
#[cfg(loom)]
pub(crate) use model::Lock;

#[cfg(loom)]
mod model {
    extern crate std;

    use core::marker::PhantomData;
    use std::fmt::{self, Debug};
    use std::sync::PoisonError;

    use loom::sync::{Mutex, MutexGuard};

    /// loom's lock in place of one of type `R`.
    pub(crate) struct Lock<R, T>(Mutex<T>, PhantomData<fn() -> R>);

    impl<R, T> Lock<R, T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value), PhantomData)
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            // The lock is poisoned only in a model that has failed.
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<R, T> Debug for Lock<R, T> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.debug_struct("Lock").finish_non_exhaustive()
        }
    }
}
