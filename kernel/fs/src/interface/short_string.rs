//! Comparison and hashing of short strings: paths and names of files.
//!
//! Most paths and names are shorter than 25 bytes. Such a string fits into three words that overlap where the
//! string is shorter than they are together. Two strings of the same length are equal if these words are
//! equal, so no loop over the bytes is needed. For a longer string, the middle word is a hash.

use hermit_interface::to_usize;

/// Size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// An odd number, whose bits have no pattern (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maximum length in bytes of a string that its [`Digest`] identifies.
pub(crate) const MAX_INLINE_LEN: usize = 3 * WORD;

/// Three words and the length of a string. They identify a string of at most [`MAX_INLINE_LEN`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Digest {
    first: u64,
    middle: u64,
    last: u64,
    length: usize,
}

impl Digest {
    /// Returns the digest of a string.
    #[inline(always)]
    pub(crate) fn of(string: &[u8]) -> Self {
        let length = string.len();
        if length < WORD {
            return Self { first: short_word(string), middle: 0, last: 0, length };
        }
        // If there are at most 24 bytes, each byte is in the first, the middle or the last word.
        let middle =
            if length <= MAX_INLINE_LEN { word_at(string, (length - WORD) / 2) } else { mixed(string) };
        Self { first: word_at(string, 0), middle, last: word_at(string, length - WORD), length }
    }

    /// Length of the string in bytes.
    #[inline]
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Returns an index below `size`, a power of two: a hash of the string and of a number.
    #[inline(always)]
    pub(crate) fn index(&self, number: u64, size: usize) -> usize {
        let string =
            self.first ^ self.middle.rotate_left(21) ^ self.last.rotate_left(42) ^ self.length as u64;
        let mixed = (string ^ number.rotate_left(11)).wrapping_mul(MULTIPLIER);
        // The upper bits are mixed best.
        to_usize(mixed >> (u64::BITS - size.ilog2())) % size
    }
}

/// Returns the word that begins at the index `start`. At least eight bytes begin there.
#[inline(always)]
fn word_at(string: &[u8], start: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&string[start..start + WORD]);
    u64::from_le_bytes(word)
}

/// Converts a string that is shorter than a word to a word.
#[inline(always)]
fn short_word(string: &[u8]) -> u64 {
    const HALF: usize = WORD / 2;
    if string.len() < HALF {
        return string.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let mut word = [0; WORD];
    word[..HALF].copy_from_slice(&string[..HALF]);
    word[HALF..].copy_from_slice(&string[string.len() - HALF..]);
    u64::from_le_bytes(word)
}

/// A hash of all whole words of a string.
#[inline(never)]
fn mixed(string: &[u8]) -> u64 {
    let words = string.as_chunks::<WORD>().0.iter().map(|chunk| u64::from_le_bytes(*chunk));
    words.fold(0, |hash, word| (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29))
}

/// Returns true if two strings are equal.
#[inline(always)]
pub(crate) fn is_same(string: &[u8], other: &[u8]) -> bool {
    string.len() == other.len()
        && if string.len() <= MAX_INLINE_LEN {
            Digest::of(string) == Digest::of(other)
        } else {
            string == other
        }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Digest, MAX_INLINE_LEN, is_same};
    use std::collections::HashSet;
    use std::vec;

    #[test]
    fn digests_of_short_strings_differ_if_a_byte_differs() {
        for length in 0..=MAX_INLINE_LEN {
            let string = vec![b'a'; length];
            let mut digests = HashSet::from([Digest::of(&string)]);
            for index in 0..length {
                let mut other = string.clone();
                other[index] = b'b';
                assert!(digests.insert(Digest::of(&other)), "byte {index} of {length}");
            }
        }
    }

    #[test]
    fn strings_are_the_same_if_no_byte_differs() {
        for length in 0..=255 {
            let string = vec![b'a'; length];
            assert!(is_same(&string, &string.clone()));
            assert!(!is_same(&string, &vec![b'a'; length + 1]));
            for index in 0..length {
                let mut other = string.clone();
                other[index] = b'b';
                assert!(!is_same(&string, &other), "byte {index} of {length}");
            }
        }
    }
}
