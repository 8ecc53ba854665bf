//! Interface of locks with a word, which a [`PageWindow`](crate::PageWindow) needs.

use core::ops::DerefMut;

/// Bit of the word of a [`WordLock`] that permits [`WordLock::replace`] and [`WordLock::try_lock`].
pub const WORD_MARK: u64 = 1 << 63;

/// A lock around a value, with a word that can be read and replaced without taking the lock.
pub trait WordLock<T>: Send + Sync + 'static {
    /// A free lock around the initial value, with the word 0.
    const NEW: Self;

    /// The lock while it is held. Dropping it releases the lock.
    type Guard<'a>: WordGuard<T>
    where
        Self: 'a;

    /// The word; 1 while the lock is held.
    fn word(&self) -> u64;

    /// Replaces a word by another one, if both have the [mark](WORD_MARK). Returns true if it has. It has not
    /// if the word is not `old`, or if the lock is held.
    fn replace(&self, old: u64, new: u64) -> bool;

    /// Takes the lock if it is free and the word is `word`, which has the [mark](WORD_MARK).
    fn try_lock(&self, word: u64) -> Option<Self::Guard<'_>>;

    /// Takes the lock.
    fn lock(&self) -> Self::Guard<'_>;
}

/// A [`WordLock`] that is held, and its value.
pub trait WordGuard<T>: DerefMut<Target = T> {
    /// The word that the lock had when it was taken, or that was set since.
    fn word(&self) -> u64;

    /// Sets the word that the lock has after its release. It must not be 1.
    fn set_word(&mut self, word: u64);
}
