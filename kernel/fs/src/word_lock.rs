//! Locks with a word, which a [`PageWindow`](crate::PageWindow) needs.

use core::ops::DerefMut;

/// The bit of the words of a [`WordLock`] that can be replaced, and compared when it is taken.
pub const WORD_MARK: u64 = 1 << 63;

/// A lock around a value, with a word that can be read and replaced without the lock.
pub trait WordLock<T>: Send + Sync + 'static {
    /// A lock that is free, around the first value, with the word 0.
    const NEW: Self;

    /// The lock while it is held. Dropping it releases the lock.
    type Guard<'a>: WordGuard<T>
    where
        Self: 'a;

    /// The word; 1 while the lock is held.
    fn word(&self) -> u64;

    /// Replaces a word by another one, if both have the [mark](WORD_MARK). Returns whether it has: not if the
    /// word is not `old`, or the lock is held.
    fn replace(&self, old: u64, new: u64) -> bool;

    /// Takes the lock if it is free and the word is this one, which has the [mark](WORD_MARK).
    fn try_lock(&self, word: u64) -> Option<Self::Guard<'_>>;

    /// Takes the lock.
    fn lock(&self) -> Self::Guard<'_>;
}

/// A [`WordLock`] that is held, and its value.
pub trait WordGuard<T>: DerefMut<Target = T> {
    /// The word that the lock had, or that was set since.
    fn word(&self) -> u64;

    /// Sets the word that the lock will have, which may not be 1.
    fn set_word(&mut self, word: u64);
}
