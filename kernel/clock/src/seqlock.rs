//! A sequence lock: readers never wait, and do not write to shared memory.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Words that are read and written together. The caller must ensure that only one thread writes at a time.
///
/// ```
/// let lock = hermit_clock::SeqLock::new([0; 2]);
/// lock.write(|| [1, 2]);
/// assert_eq!(lock.read(|words| words), Some([1, 2]));
/// ```
#[derive(Debug)]
pub struct SeqLock<const WORDS: usize> {
    /// Number of beginnings and ends of writes: odd during a write.
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> SeqLock<WORDS> {
    /// A lock around `words`.
    #[must_use]
    pub const fn new(words: [u64; WORDS]) -> Self {
        let mut atomics = [const { AtomicU64::new(0) }; WORDS];
        let mut index = 0;
        while index < WORDS {
            atomics[index] = AtomicU64::new(words[index]);
            index += 1;
        }
        Self { sequence: AtomicU64::new(0), words: atomics }
    }

    /// Calls `action` with the words, and returns its result. Returns `None` and discards the result if the
    /// words were written meanwhile.
    #[inline]
    pub fn read<R>(&self, action: impl FnOnce([u64; WORDS]) -> R) -> Option<R> {
        self.read_some(|words| Some(action(core::array::from_fn(|index| words[index].load(Relaxed)))))
    }

    /// Reads as [`Self::read`] does. `action` itself loads the words that it needs, and may return `None`.
    #[inline]
    pub fn read_some<R>(&self, action: impl FnOnce(&[AtomicU64; WORDS]) -> Option<R>) -> Option<R> {
        let before = self.sequence.load(Acquire);
        let result = action(&self.words)?;
        fence(Acquire);
        (before.is_multiple_of(2) && self.sequence.load(Relaxed) == before).then_some(result)
    }

    /// Replaces the words by the result of `make`. A reading that overlaps with the call of `make` returns
    /// `None`.
    pub fn write(&self, make: impl FnOnce() -> [u64; WORDS]) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        fence(Release);
        for (word, value) in self.words.iter().zip(make()) {
            word.store(value, Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::SeqLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn reading_during_a_write_fails() {
        let lock = SeqLock::new([7, 8]);
        lock.write(|| {
            assert_eq!(lock.read(|words| words), None);
            [9, 10]
        });
        assert_eq!(lock.read(|words| words), Some([9, 10]));
        let written_meanwhile = lock.read(|words| {
            lock.write(|| [11, 12]);
            words
        });
        assert_eq!(written_meanwhile, None);
        assert_eq!(lock.read(|words| words), Some([11, 12]));
    }

    #[test]
    fn words_of_a_reading_belong_to_one_write() {
        let (lock, is_over) = (SeqLock::new([0; 4]), AtomicBool::new(false));
        let read = || {
            while !is_over.load(Ordering::Relaxed) {
                let words = lock.read(|words| words).unwrap_or_default();
                assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
            }
        };
        thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(read)));
            (1..=if cfg!(miri) { 50 } else { 200_000 }).for_each(|value| lock.write(|| [value; 4]));
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(lock.read(|words| words).is_some());
    }
}
