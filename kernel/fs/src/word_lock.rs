//! Locks with a word, which a [`PageWindow`](crate::PageWindow) needs.

use core::ops::{Deref, DerefMut};

use lock_api::{Mutex, MutexGuard, RawMutex};

use crate::page_window::View;

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

    /// Replaces a word by another one, if both have the [mark](WORD_MARK). Returns whether it has: not if the word is not `old`,
    /// or the lock is held.
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

/// The word of a lock that is held.
const HELD: u64 = 1;

/// A [`WordLock`] without a kernel below, for tests: the word is under the lock, too.
#[expect(missing_debug_implementations, reason = "raw locks have none")]
pub struct MutexWordLock<R: RawMutex, T>(Mutex<R, Worded<T>>);

/// A value with its word.
struct Worded<T> {
    word: u64,
    value: T,
}

impl<R: RawMutex + Send + Sync + 'static, P> WordLock<View<P>> for MutexWordLock<R, View<P>>
where
    View<P>: Send + 'static,
{
    const NEW: Self = Self(Mutex::const_new(R::INIT, Worded { word: 0, value: View::EMPTY }));

    type Guard<'a> = MutexWordGuard<'a, R, View<P>>;

    fn word(&self) -> u64 {
        self.0.try_lock().map_or(HELD, |locked| locked.word)
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        if old & new & WORD_MARK == 0 {
            return false;
        }
        let mut locked = self.0.lock();
        let is_old = locked.word == old;
        if is_old {
            locked.word = new;
        }
        is_old
    }

    fn try_lock(&self, word: u64) -> Option<MutexWordGuard<'_, R, View<P>>> {
        let locked = self.0.lock();
        (word & WORD_MARK != 0 && locked.word == word).then_some(MutexWordGuard(locked))
    }

    fn lock(&self) -> MutexWordGuard<'_, R, View<P>> {
        MutexWordGuard(self.0.lock())
    }
}

/// A [`MutexWordLock`] that is held.
#[expect(missing_debug_implementations, reason = "raw locks have none")]
pub struct MutexWordGuard<'a, R: RawMutex, T>(MutexGuard<'a, R, Worded<T>>);

impl<R: RawMutex, T> WordGuard<T> for MutexWordGuard<'_, R, T> {
    fn word(&self) -> u64 {
        self.0.word
    }

    fn set_word(&mut self, word: u64) {
        self.0.word = word;
    }
}

impl<R: RawMutex, T> Deref for MutexWordGuard<'_, R, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<R: RawMutex, T> DerefMut for MutexWordGuard<'_, R, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}
