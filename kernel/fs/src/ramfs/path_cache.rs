//! The paths that were found last, each with the inode that it leads to, so that a call need not walk.
//!
//! An entry is valid as long as two numbers are those that it was made with:
//!
//! - the number of changes of directories: of renames and removals of directories, which may concern any path. It is odd
//!   during one. It changes before the first effect of the change, under locks that each walk takes, so a walk that sees an
//!   effect sees the number, too; and a walk with the same even number at its start and end has seen no change in part.
//! - the number of names that the inode has lost, which is kept with its number, also when another inode gets that. It
//!   changes with the entry of the directory, while directory and inode are locked. So a caller that has locked the inode
//!   and finds the number has the name, whatever happens to other names.
//!
//! A new name makes no entry invalid, since no entry says that a name is absent. Nor does a mount: entries are found only
//! with the inodes to stop at that they were made with.

use alloc::boxed::Box;
#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_interface::{Errno, to_usize};
use lock_api::{Mutex, RawMutex};
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

use super::directory::is_same;
use crate::system::{Lock, boxed};
use crate::{Ino, System};

/// Number of entries.
const SIZE: usize = 64;

/// Maximum length of a path that is kept, in bytes.
const MAX_LENGTH: usize = 128;

/// Size of a word in bytes.
const WORD: usize = size_of::<u64>();

/// An odd number, whose bits have no pattern (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A path from a directory on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFrom<'a> {
    pub(super) start: Ino,
    /// Names, separated by slashes.
    pub(super) path: &'a [u8],
    /// The numbers modulo 64, as bits, of inodes that the walk does not enter.
    pub(super) stops: u64,
}

/// What an entry says of the inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    pub(super) ino: Ino,
    /// Number of names that inodes of this number have lost.
    pub(super) lost_names: u64,
    /// Number of changes of directories.
    pub(super) changes: u64,
}

/// An entry. An empty one has the empty path, which no call has.
#[derive(Debug)]
struct CacheEntry {
    start: Ino,
    stops: u64,
    length: usize,
    words: Words,
    cached: Cached,
    /// The path, if the words do not tell it.
    bytes: [u8; MAX_LENGTH],
}

impl CacheEntry {
    /// Whether this is the entry of a path of its length.
    #[inline(never)]
    fn has(&self, path: &[u8]) -> bool {
        self.bytes.get(..path.len()).is_some_and(|bytes| is_same(bytes, path))
    }
}

/// The cache of paths.
#[derive(Debug)]
pub(super) struct PathCache<S: System> {
    /// An entry is at the hash of its path. Its lock is held for a comparison or copy of the path, and no other one is taken
    /// with it.
    entries: Box<[Lock<S, CacheEntry>; SIZE]>,
    changes: AtomicU64,
}

/// A change of directories in progress.
#[derive(Debug)]
pub(super) struct DirectoryChange<'a>(&'a AtomicU64);

impl Drop for DirectoryChange<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
    }
}

/// Words of a path. With the length, they tell one of at most [`TOLD_LENGTH`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Words {
    first: u64,
    middle: u64,
    last: u64,
}

/// Maximum length of a path that its words tell.
const TOLD_LENGTH: usize = 3 * WORD;

/// The words of a path.
#[inline(always)]
fn words(path: &[u8]) -> Words {
    let end = path.len();
    if end < WORD {
        return Words { first: short_word(path), middle: 0, last: 0 };
    }
    // Of at most 24 bytes, none lies between the word in the middle and the others.
    let middle = if end <= TOLD_LENGTH { word_at(path, (end - WORD) / 2) } else { mixed(path) };
    Words { first: word_at(path, 0), middle, last: word_at(path, end - WORD) }
}

/// The word that begins at a byte, from which on there is one.
#[inline(always)]
fn word_at(path: &[u8], start: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&path[start..start + WORD]);
    u64::from_le_bytes(word)
}

/// A path of less than a word as a word.
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
    let words = path.as_chunks::<WORD>().0.iter();
    words.fold(0, |hash, word| (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER).rotate_left(29))
}

/// Index of the entry of a path.
#[inline]
fn index(Words { first, middle, last }: Words, length: usize) -> usize {
    let mixed = first ^ middle.rotate_left(21) ^ last.rotate_left(42) ^ length as u64;
    to_usize(mixed.wrapping_mul(MULTIPLIER) >> (u64::BITS - SIZE.ilog2()))
}

impl<S: System> PathCache<S> {
    /// A cache without entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let cached = Cached { ino: Ino::ROOT, lost_names: 0, changes: 0 };
        let entry = CacheEntry {
            start: Ino::ROOT,
            stops: 0,
            length: 0,
            words: Words { first: 0, middle: 0, last: 0 },
            cached,
            bytes: [0; MAX_LENGTH],
        };
        let entry = || Mutex::const_new(RawMutex::INIT, CacheEntry { bytes: entry.bytes, ..entry });
        Ok(Self { entries: boxed(entry)?, changes: AtomicU64::new(0) })
    }

    /// Begins a change of directories. Names are locked, so there is one at a time.
    pub(super) fn begin_change(&self) -> DirectoryChange<'_> {
        self.changes.fetch_add(1, Release);
        DirectoryChange(&self.changes)
    }

    /// Number of changes of directories.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// The entry of a path. Whether it is valid is to be checked with the inode locked.
    #[inline(always)]
    pub(super) fn find(&self, from: PathFrom<'_>) -> Option<Cached> {
        let length = from.path.len();
        if length > MAX_LENGTH {
            return None;
        }
        let words = words(from.path);
        let entry = self.entries[index(words, length) % SIZE].lock();
        let is_it = entry.length == length
            && entry.words == words
            && entry.start == from.start
            && entry.stops == from.stops
            && (length <= TOLD_LENGTH || entry.has(from.path));
        is_it.then_some(entry.cached)
    }

    /// Keeps a path, in place of another one. The inode is locked, and `changes` is from before the walk that has found it.
    #[inline(never)]
    pub(super) fn insert(&self, from: PathFrom<'_>, cached: Cached) {
        if !cached.changes.is_multiple_of(2) || cached.changes != self.changes() {
            return;
        }
        let length = from.path.len();
        let words = words(from.path);
        let mut entry = self.entries[index(words, length) % SIZE].lock();
        if let Some(bytes) = entry.bytes.get_mut(..length) {
            bytes.copy_from_slice(from.path);
            (entry.start, entry.stops) = (from.start, from.stops);
            (entry.length, entry.words, entry.cached) = (length, words, cached);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Cached, words};
    use super::{MAX_LENGTH, PathCache, PathFrom, TOLD_LENGTH};
    use crate::Ino;
    use crate::testing::TestSystem;
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

    const fn from(path: &[u8]) -> PathFrom<'_> {
        PathFrom { start: Ino::ROOT, path, stops: 0 }
    }

    #[test]
    fn entry_is_found_by_its_path_of_any_length_alone() {
        let cache: PathCache<TestSystem> = PathCache::new().unwrap();
        for length in 1..=MAX_LENGTH + 1 {
            let mut path = vec![b'a'; length];
            let cached = Cached { ino: Ino(length as u64), lost_names: 0, changes: cache.changes() };
            cache.insert(from(&path), cached);
            let found = cache.find(from(&path)).map(|cached| cached.ino);
            assert_eq!(found, (length <= MAX_LENGTH).then_some(Ino(length as u64)));
            assert!(cache.find(PathFrom { stops: 1, ..from(&path) }).is_none());
            assert!(cache.find(PathFrom { start: Ino(7), ..from(&path) }).is_none());
            for index in 0..length {
                path[index] = b'b';
                assert!(cache.find(from(&path)).is_none(), "byte {index} of {length}");
                path[index] = b'a';
            }
        }
    }
}
