//! A value that is initialised once, for state that is set at the start of the kernel or at its first use.
//!
//! A state of one byte says whether the value is missing, is being made, or is there. The caller that changes
//! the state from missing to being made initialises the value; other callers spin until the value is there.
//! Afterwards, reading the value takes one load of the state. The code that is compiled for each type and
//! initialiser is kept small, since the kernel has about fifty of them, and each is used once.
//!
//! `kernel/models` compiles this file with loom's atomics and cells, which check each access to the value.
#![cfg_attr(loom, expect(unsafe_code, reason = "the crate of the models denies it"))]

use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_base::const_fn;
use hermit_base::sync::atomic::AtomicU8;
use hermit_base::sync::{UnsafeCell, spin_loop};

/// State: there is no value yet.
const EMPTY: u8 = 0;

/// State: a caller makes the value.
const BUSY: u8 = 1;

/// State: there is a value, permanently.
const READY: u8 = 2;

/// A value that the first caller initialises, while other callers spin.
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written only by the caller that changed the state from `EMPTY` to `BUSY`, which the
// atomic operation lets one caller do at a time. It is read only in the state `READY`, which is final.
// `Release` and `Acquire` order the write before the reads. So threads share the value by shared references,
// and it must be `Sync`. It may be dropped by another thread than the one that made it, so it must be `Send`.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    const_fn! {
        /// Creates a `Once` without a value.
        #[must_use]
        pub const fn new() -> Self {
            Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// The value, if it is initialised.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if self.state.load(Acquire) != READY {
            return None;
        }
        // SAFETY: in the state `READY` the value is initialised, and nothing changes it (see `Sync`).
        Some(self.value.with(|value| unsafe { &*value.cast() }))
    }

    /// Returns the value. The first caller initialises it. `make` must not use this `Once`: it would
    /// deadlock.
    #[inline]
    pub fn call_once(&self, make: impl FnOnce() -> T) -> &T {
        enum Never {}
        match self.try_call_once(|| Ok::<T, Never>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// Returns the value. The first caller whose `make` succeeds initialises it. `make` must not use this
    /// `Once`: it would deadlock.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    #[inline]
    pub fn try_call_once<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.try_call_once_slow(make),
        }
    }

    #[cold]
    fn try_call_once_slow<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if begin(&self.state) {
            let value = make().inspect_err(|_| self.state.store(EMPTY, Release))?;
            // SAFETY: `begin` has changed the state to `BUSY` for this caller alone, so there is no reference
            // to the value.
            self.value.with_mut(|place| unsafe { place.cast::<T>().write(value) });
            self.state.store(READY, Release);
        }
        // SAFETY: the value is initialised: this caller has just done it, or `begin` has found the state
        // `READY`.
        Ok(self.value.with(|value| unsafe { &*value.cast() }))
    }
}

/// Changes a state from [`EMPTY`] to [`BUSY`] and returns true. Returns false if the state is [`READY`],
/// perhaps because another caller has made the value meanwhile.
#[cold]
#[inline(never)]
fn begin(state: &AtomicU8) -> bool {
    loop {
        match state.compare_exchange(EMPTY, BUSY, Acquire, Acquire) {
            Ok(_) => return true,
            Err(READY) => return false,
            Err(_) => spin_loop(),
        }
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Once").field(&self.get()).finish()
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        // The exclusive reference orders all accesses of others before this.
        if self.state.load(Relaxed) == READY {
            // SAFETY: in the state `READY` the value is initialised; nothing uses it after this.
            self.value.with_mut(|value| unsafe { value.cast::<T>().drop_in_place() });
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
#[path = "once/models.rs"]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Once;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    #[test]
    fn first_call_initialises_and_others_wait_for_its_value() {
        let (once, calls) = (Once::new(), AtomicUsize::new(0));
        let make = || {
            calls.fetch_add(1, Relaxed);
            thread::yield_now();
            7
        };
        thread::scope(|scope| {
            let threads: [_; 4] = core::array::from_fn(|_| scope.spawn(|| *once.call_once(make)));
            assert_eq!(threads.map(|thread| thread.join().unwrap()), [7; 4]);
        });
        assert_eq!((calls.into_inner(), once.get()), (1, Some(&7)));
    }

    #[test]
    fn call_after_one_that_failed_initialises() {
        let once = Once::new();
        assert_eq!(once.try_call_once(|| Err::<u8, _>("error")), Err("error"));
        assert_eq!(once.get(), None);
        assert_eq!(once.try_call_once(|| Ok::<_, &str>(7)), Ok(&7));
        assert_eq!(once.try_call_once(|| Err("error")), Ok(&7));
    }

    #[test]
    fn value_is_dropped_if_there_is_one() {
        let value = Arc::new(());
        drop(Once::<Arc<()>>::new());
        let once = Once::new();
        once.call_once(|| value.clone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(once);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
