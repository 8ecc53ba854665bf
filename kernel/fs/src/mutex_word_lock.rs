//! A [`WordLock`] over any lock, for tests.

use core::ops::{Deref, DerefMut};

use lock_api::{Mutex, MutexGuard, RawMutex};

use crate::page_window::View;
use crate::word_lock::{WORD_MARK, WordGuard, WordLock};

/// The word of a lock that is held.
const HELD: u64 = 1;

/// A [`WordLock`] that does not need the kernel. Unlike in the kernel, the mutex protects the word, too.
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
