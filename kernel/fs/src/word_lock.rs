//! Interface of a lock that has a data word. A [`PageWindow`](crate::PageWindow) needs such a lock.

use core::ops::DerefMut;

/// Bit of the word of a [`WordLock`] that permits [`WordLock::replace`] and [`WordLock::try_lock`].
pub const WORD_MARK: u64 = 1 << 63;

/// A lock around a value, with a word that can be read and replaced without taking the lock.
pub trait WordLock<T>: Send + Sync + 'static {
    /// An unlocked lock with the initial value and the word 0.
    const NEW: Self;

    /// The guard of the lock. Dropping it releases the lock.
    type Guard<'a>: WordGuard<T>
    where
        Self: 'a;

    /// Returns the word. It is 1 while the lock is held.
    fn word(&self) -> u64;

    /// Replaces the word `old` with `new` if both have the [mark](WORD_MARK). Returns true on success. It
    /// fails if the current word is not `old`, or if the lock is held.
    fn replace(&self, old: u64, new: u64) -> bool;

    /// Takes the lock if it is free and its word is `word`. Fails if `word` does not have the
    /// [mark](WORD_MARK).
    fn try_lock(&self, word: u64) -> Option<Self::Guard<'_>>;

    /// Takes the lock.
    fn lock(&self) -> Self::Guard<'_>;
}

/// The guard of a [`WordLock`]. It gives access to the value.
pub trait WordGuard<T>: DerefMut<Target = T> {
    /// Returns the word that the lock will have after its release: the last one that was set, or the one that
    /// it had when it was taken.
    fn word(&self) -> u64;

    /// Sets the word that the lock has after its release. It must not be 1.
    fn set_word(&mut self, word: u64);
}
