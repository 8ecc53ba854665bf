//! A value that is initialised once.

use hermit_hal::once::Once;

use super::Mutex;

/// A value that the first thread that asks for it initialises. Others sleep meanwhile: initialisation may
/// take long, and the thread that does it may be preempted by one that asks.
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

    /// The value, which the first call initialises. `initialize` must not use this value.
    pub(crate) fn get_or_init(&self, initialize: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| self.mutex.with(|| self.value.call_once(initialize)))
    }

    /// The value, which the first call initialises whose `initialize` does not fail. That must not use this
    /// value.
    pub(crate) fn get_or_try_init<E>(&self, initialize: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.mutex.with(|| self.value.try_call_once(initialize)),
        }
    }
}
