//! A spinlock with a word that can be read and replaced without taking the lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::wait_while;
use crate::interrupts;

/// Value of the word while the lock is held.
const HELD: u64 = 1;

/// Bit of a word that permits [`WordLock::replace`] and [`WordLock::try_lock`], which compare the word with
/// an expected one. [`HELD`] does not have this bit, so the comparison also fails if the lock is held.
const MARK: u64 = 1 << 63;

/// A spinlock around a value, with a word of 64 bits. It masks interrupts, as [`SpinLock`](super::SpinLock)
/// does. Lock and word are one atomic. So changing only the word needs no lock, and taking the lock also
/// returns the word.
///
/// The word is never 1, which means that the lock is held.
pub struct WordLock<T> {
    word: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: shared references give access to the value only through `WordGuard`, and only one guard exists at a
// time. `lock` and `try_lock` make a guard after they have changed the word to `HELD`, from another word, by
// an atomic operation. Only dropping the guard changes the word from `HELD`, since `replace` refuses a word
// without the mark. Acquire and release order the accesses to the value; a `replace` between them is an
// atomic read-modify-write, which continues the release sequence.
unsafe impl<T: Send> Sync for WordLock<T> {}

impl<T> WordLock<T> {
    /// Creates a free lock.
    ///
    /// # Panics
    ///
    /// If the word is 1.
    #[must_use]
    pub const fn new(word: u64, value: T) -> Self {
        assert!(word != HELD, "the word of a held lock");
        Self { word: AtomicU64::new(word), value: UnsafeCell::new(value) }
    }

    /// The word; 1 while the lock is held.
    #[inline]
    pub fn word(&self) -> u64 {
        self.word.load(Relaxed)
    }

    /// Replaces the word `old` by `new`, if both have the [mark](MARK). Returns true if the word was
    /// replaced, and false if the word is not `old` or the lock is held.
    #[inline]
    pub fn replace(&self, old: u64, new: u64) -> bool {
        old & new & MARK != 0 && self.word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }

    /// Takes the lock if it is free and its word is `word`. Returns `None` otherwise, and if `word` does not
    /// have the [mark](MARK).
    #[inline]
    pub fn try_lock(&self, word: u64) -> Option<WordGuard<'_, T>> {
        if word & MARK == 0 {
            return None;
        }
        interrupts::mask();
        if self.word.compare_exchange(word, HELD, Acquire, Relaxed).is_ok() {
            return Some(WordGuard { lock: self, word, not_send: PhantomData });
        }
        interrupts::unmask();
        None
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> WordGuard<'_, T> {
        interrupts::mask();
        let mut word = self.word.swap(HELD, Acquire);
        if word == HELD {
            word = contend(&self.word);
        }
        WordGuard { lock: self, word, not_send: PhantomData }
    }
}

/// Waits until another CPU has released a lock, and takes the lock. Returns the word that the lock had
/// before.
#[cold]
fn contend(lock: &AtomicU64) -> u64 {
    loop {
        wait_while(|| lock.load(Relaxed) == HELD);
        let word = lock.swap(HELD, Acquire);
        if word != HELD {
            return word;
        }
    }
}

impl<T> fmt::Debug for WordLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordLock").field("word", &self.word()).finish_non_exhaustive()
    }
}

/// A [`WordLock`] that is held. Dropping it releases the lock.
#[derive(Debug)]
pub struct WordGuard<'a, T> {
    lock: &'a WordLock<T>,
    /// The word that the lock has after the release.
    word: u64,
    /// Not `Send`: the mask of interrupts belongs to this CPU.
    not_send: PhantomData<*const ()>,
}

impl<T> WordGuard<'_, T> {
    /// The word that the lock had when it was taken, or that was set since.
    #[inline]
    #[must_use]
    pub fn word(&self) -> u64 {
        self.word
    }

    /// Sets the word that the lock has after its release. It must not be 1, or the lock would stay held
    /// forever.
    #[inline]
    pub fn set_word(&mut self, word: u64) {
        debug_assert!(word != HELD, "the word of a held lock");
        self.word = word;
    }
}

impl<T> Deref for WordGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one of the lock as long as it exists (see `Sync`), and it is
        // borrowed for the reference; an exclusive one borrows it exclusively.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WordGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one of the lock as long as it exists (see `Sync`), and it is
        // borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for WordGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.word.store(self.word, Release);
        interrupts::unmask();
    }
}
