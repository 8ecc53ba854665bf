//! Bitmaps of allocated descriptors.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::MAX_DESCRIPTORS;

/// Bits of a word.
pub(super) const WORD: usize = 64;

/// Number of words for all descriptors.
const MAX_WORDS: usize = MAX_DESCRIPTORS / WORD;

/// A bit for each of the first 64 descriptors, which is set if the descriptor is allocated. It needs no lock.
#[derive(Debug)]
pub(super) struct FirstWord(AtomicU64);

impl FirstWord {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets the lowest clear bit whose number is at least `min`, and returns the number. Returns `None` if
    /// all these bits are set.
    #[inline]
    pub(super) fn allocate(&self, min: usize) -> Option<usize> {
        let below = u64::MAX.checked_shl(u32::try_from(min).ok()?)?;
        let mut word = self.0.load(Relaxed);
        loop {
            let number = (word | !below).trailing_ones();
            let bit = 1_u64.checked_shl(number)?;
            // Acquire: accesses to the descriptor's slot before it was freed happen before accesses by the
            // new owner.
            match self.0.compare_exchange_weak(word, word | bit, Acquire, Relaxed) {
                Ok(_) => return Some(number as usize),
                Err(changed) => word = changed,
            }
        }
    }

    /// Clears the bit of a number. The bit is set.
    #[inline]
    pub(super) fn free(&self, number: usize) {
        self.0.fetch_and(!(1 << (number % WORD)), Release);
    }
}

/// A bit for each number, which is set if the number is allocated. The bitmap finds the lowest free number in
/// constant time.
#[derive(Debug)]
pub(super) struct Bitmap {
    words: [u64; MAX_WORDS],
    /// A bit for each word, which is set if all bits of the word are set.
    full: [u64; MAX_WORDS / WORD],
}

impl Bitmap {
    pub(super) const fn new() -> Self {
        Self { words: [0; MAX_WORDS], full: [0; MAX_WORDS / WORD] }
    }

    /// Sets the bit of a number.
    pub(super) fn allocate(&mut self, number: usize) {
        self.update(number, |word, bit| word | bit);
    }

    /// Clears the bit of a number.
    pub(super) fn free(&mut self, number: usize) {
        self.update(number, |word, bit| word & !bit);
    }

    fn update(&mut self, number: usize, change: impl Fn(u64, u64) -> u64) {
        let index = number / WORD;
        let Some(word) = self.words.get_mut(index) else { return };
        *word = change(*word, 1 << (number % WORD));
        if let Some(full) = self.full.get_mut(index / WORD) {
            let bit = 1 << (index % WORD);
            *full = if *word == u64::MAX { *full | bit } else { *full & !bit };
        }
    }

    /// Returns the lowest free number that is at least `min`.
    pub(super) fn lowest_free(&self, min: usize) -> Option<usize> {
        let below = (1 << (min % WORD)) - 1;
        let first = self.word(min / WORD) | below;
        if first != u64::MAX && min < MAX_DESCRIPTORS {
            return Some(min / WORD * WORD + first.trailing_ones() as usize);
        }
        let index = lowest_zero(&self.full, min / WORD + 1)?;
        Some(index * WORD + self.word(index).trailing_ones() as usize)
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
}

/// Returns the lowest number that is at least `min` and whose bit is not set.
fn lowest_zero(words: &[u64], min: usize) -> Option<usize> {
    let (first, below) = (min / WORD, (1 << (min % WORD)) - 1);
    let words = words.iter().enumerate().skip(first);
    let mut words = words.map(|(index, word)| (index, if index == first { word | below } else { *word }));
    let (index, word) = words.find(|(_, word)| *word != u64::MAX)?;
    Some(index * WORD + word.trailing_ones() as usize)
}
