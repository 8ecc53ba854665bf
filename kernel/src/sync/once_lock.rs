//! A value that is initialised once.

use hermit_hal::once::Once;

use super::Mutex;

/// A value that is initialised by the first thread that asks for it. Other threads that ask sleep until then,
/// instead of spinning: the initialisation may take long, and a thread that spins might preempt the
/// initialising thread.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: Once<T>,
    mutex: Mutex,
}

impl<T> OnceLock<T> {
    /// A value that is not initialised.
    pub(crate) const fn new() -> Self {
        Self { value: Once::new(), mutex: Mutex::new() }
    }

    /// The value, if it is initialised.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Returns the value. The first call initialises it with `initialize`, which must not use the same
    /// [`OnceLock`].
    pub(crate) fn get_or_init(&self, initialize: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| self.mutex.with(|| self.value.call_once(initialize)))
    }

    /// Returns the value. The first call whose `initialize` succeeds initialises it. `initialize` must not
    /// use the same [`OnceLock`].
    pub(crate) fn get_or_try_init<E>(&self, initialize: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.mutex.with(|| self.value.try_call_once(initialize)),
        }
    }
}
