//! Paths and names as words of eight bytes. Short paths and names are compared and hashed without a loop over
//! their bytes.

/// Size of a word in bytes.
pub(super) const WORD: usize = size_of::<u64>();

/// An odd number, whose bits have no pattern (2^64 divided by the golden ratio).
pub(super) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Three words of a path or name. Together with the length, they identify a path or name of at most
/// [`TOLD_LENGTH`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Words {
    pub(super) first: u64,
    pub(super) middle: u64,
    pub(super) last: u64,
}

/// Maximum length in bytes of a path that its [`Words`] and its length identify.
pub(super) const TOLD_LENGTH: usize = 3 * WORD;

/// The words of a path.
#[inline(always)]
pub(super) fn words(path: &[u8]) -> Words {
    let end = path.len();
    if end < WORD {
        return Words { first: short_word(path), middle: 0, last: 0 };
    }
    // If there are at most 24 bytes, each byte is in the first, the middle or the last word.
    let middle = if end <= TOLD_LENGTH { word_at(path, (end - WORD) / 2) } else { mixed(path) };
    Words { first: word_at(path, 0), middle, last: word_at(path, end - WORD) }
}

/// Returns the word that begins at the index `start`. At least eight bytes begin there.
#[inline(always)]
fn word_at(path: &[u8], start: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&path[start..start + WORD]);
    u64::from_le_bytes(word)
}

/// Converts a path that is shorter than a word to a word.
#[inline(always)]
fn short_word(path: &[u8]) -> u64 {
    const HALF: usize = WORD / 2;
    if path.len() < HALF {
        return path.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let mut word = [0; WORD];
    word[..HALF].copy_from_slice(&path[..HALF]);
    word[HALF..].copy_from_slice(&path[path.len() - HALF..]);
    u64::from_le_bytes(word)
}

/// A hash of all whole words of a path.
#[inline(never)]
fn mixed(path: &[u8]) -> u64 {
    whole_words(path).fold(0, |hash, word| (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29))
}

/// The whole words of a path. Its [last word](Words::last) has the bytes after these.
#[inline]
pub(super) fn whole_words(path: &[u8]) -> impl Iterator<Item = u64> {
    path.as_chunks::<WORD>().0.iter().map(|chunk| u64::from_le_bytes(*chunk))
}

/// Returns true if two names are equal.
#[inline(always)]
pub(super) fn is_same(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len()
        && if name.len() <= TOLD_LENGTH { words(name) == words(other) } else { name == other }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{TOLD_LENGTH, is_same, words};
    use std::collections::HashSet;
    use std::vec;

    #[test]
    fn words_of_short_paths_tell_each_byte() {
        for length in 0..=TOLD_LENGTH {
            let path = vec![b'a'; length];
            let mut told = HashSet::from([words(&path)]);
            for index in 0..length {
                let mut other = path.clone();
                other[index] = b'b';
                assert!(told.insert(words(&other)), "byte {index} of {length}");
            }
        }
    }

    #[test]
    fn names_are_the_same_if_no_byte_differs() {
        for length in 0..=255 {
            let name = vec![b'a'; length];
            assert!(is_same(&name, &name.clone()));
            assert!(!is_same(&name, &vec![b'a'; length + 1]));
            for index in 0..length {
                let mut other = name.clone();
                other[index] = b'b';
                assert!(!is_same(&name, &other), "byte {index} of {length}");
            }
        }
    }
}
