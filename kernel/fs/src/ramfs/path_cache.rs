//! A cache of paths: it keeps the inodes that recently used paths led to, so that a call need not walk again.
//!
//! Entries are not removed when names change. Instead, an entry is valid as long as two counters have the
//! values that they had when it was made:
//!
//! - The number of changes of directories. It counts renames and removals of directories, since these may
//!   concern any path. It is odd during such a change. It is increased before the first effect of the change,
//!   under locks that each walk takes. So a walk that sees an effect of the change also sees the new number.
//!   A walk that sees the same even number at its start and at its end has not seen a part of a change.
//! - The number of names that the inode has lost. This counter belongs to the inode number, and continues
//!   when another inode gets the same number. It is increased together with the removal of the directory
//!   entry, while both the directory and the inode are locked. So if a caller has locked the inode and finds
//!   the counter unchanged, the inode still has the name. If the inode loses another of its names, the entry
//!   only becomes invalid without need.
//!
//! A new name does not make entries invalid, since no entry says that a name is absent. A new mount does not,
//! either: a call finds an entry only if it has the same `stops` (the inodes that the walk must not enter).

use alloc::boxed::Box;
#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::AtomicU64 as EntryWord;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_clock::SeqLock;
use hermit_interface::{Errno, to_usize};
use lock_api::Mutex;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

use super::words::{MULTIPLIER, TOLD_LENGTH, WORD, Words, whole_words, words};
use crate::system::{Lock, boxed};
use crate::{Ino, System};

/// Number of entries.
const SIZE: usize = 64;

/// Maximum length in bytes of a path in the cache.
const MAX_LENGTH: usize = 128;

/// A path, relative to a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFrom<'a> {
    pub(super) start: Ino,
    /// Names, separated by slashes.
    pub(super) path: &'a [u8],
    /// The inodes that the walk must not enter: for each of them, the bit of its number modulo 64 is set.
    pub(super) stops: u64,
}

impl PathFrom<'_> {
    /// Packs the inode number of the start and the length of the path into one word. They fit, because there
    /// are at most 2^24 inodes.
    #[inline]
    const fn start_and_length(&self) -> u64 {
        self.start.0 << u32::BITS | self.path.len() as u64
    }
}

/// Contents of an entry, except the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    pub(super) ino: Ino,
    /// Number of names that inodes with this number have lost.
    pub(super) lost_names: u64,
    /// Number of changes of directories.
    pub(super) changes: u64,
}

/// An entry. Its words are: the start and length of the path; the [`Words`] of the path; the contents; and,
/// if the path is too long to be identified by its [`Words`], all words of the path. An empty entry has the
/// empty path, for which no call looks.
type Entry = SeqLock<ENTRY_WORDS>;

/// Indices of an entry's words.
const START: usize = 0;
const FIRST: usize = 1;
const MIDDLE: usize = 2;
const LAST: usize = 3;
const STOPS: usize = 4;
const INO: usize = 5;
const LOST_NAMES: usize = 6;
const CHANGES: usize = 7;
const WHOLE: usize = 8;
const ENTRY_WORDS: usize = WHOLE + MAX_LENGTH / WORD;

/// The cache of paths.
#[derive(Debug)]
pub(super) struct PathCache<S: System> {
    /// The entries. The hash of a path gives the index of its entry. Readers take no lock.
    entries: Box<[Entry; SIZE]>,
    /// Lock that is held while an entry is written.
    writer: Lock<S, ()>,
    changes: AtomicU64,
}

/// A change of directories in progress. Dropping it ends the change.
#[derive(Debug)]
pub(super) struct DirectoryChange<'a>(&'a AtomicU64);

impl Drop for DirectoryChange<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
    }
}

/// Index of the entry of a path.
#[inline]
fn index(Words { first, middle, last }: Words, length: usize) -> usize {
    let mixed = first ^ middle.rotate_left(21) ^ last.rotate_left(42) ^ length as u64;
    to_usize(mixed.wrapping_mul(MULTIPLIER) >> (u64::BITS - SIZE.ilog2()))
}

/// Returns true if an entry has the words of a path. The path in the entry has the same length.
#[inline(never)]
fn has_whole_words(entry: &[EntryWord], path: &[u8]) -> bool {
    entry.iter().skip(WHOLE).zip(whole_words(path)).all(|(word, expected)| word.load(Relaxed) == expected)
}

impl<S: System> PathCache<S> {
    /// A cache without entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let entries = boxed(|| Entry::new([0; ENTRY_WORDS]))?;
        Ok(Self { entries, writer: Mutex::new(()), changes: AtomicU64::new(0) })
    }

    /// Begins a change of directories. The caller holds the lock of the names, so there is only one change at
    /// a time.
    pub(super) fn begin_change(&self) -> DirectoryChange<'_> {
        self.changes.fetch_add(1, Release);
        DirectoryChange(&self.changes)
    }

    /// Number of changes of directories.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Finds the entry of a path. The caller must then lock the inode and check whether the entry is valid.
    #[inline(always)]
    pub(super) fn find(&self, from: PathFrom<'_>) -> Option<Cached> {
        let length = from.path.len();
        if length > MAX_LENGTH {
            return None;
        }
        let path = words(from.path);
        self.entries[index(path, length) % SIZE].read_some(|entry| {
            let word = |index: usize| entry[index].load(Relaxed);
            let is_it = word(START) == from.start_and_length()
                && word(FIRST) == path.first
                && word(MIDDLE) == path.middle
                && word(LAST) == path.last
                && word(STOPS) == from.stops
                && (length <= TOLD_LENGTH || has_whole_words(entry, from.path));
            let cached =
                || Cached { ino: Ino(word(INO)), lost_names: word(LOST_NAMES), changes: word(CHANGES) };
            is_it.then(cached)
        })
    }

    /// Stores a path in place of another path. The caller has locked the inode, and has read `changes` before
    /// the walk that found the inode.
    #[inline(never)]
    pub(super) fn insert(&self, from: PathFrom<'_>, cached: Cached) {
        if !cached.changes.is_multiple_of(2) || cached.changes != self.changes() {
            return;
        }
        let length = from.path.len();
        if length > MAX_LENGTH {
            return;
        }
        let path = words(from.path);
        let writer = self.writer.lock();
        self.entries[index(path, length) % SIZE].write(|| {
            let mut entry = [0; ENTRY_WORDS];
            (entry[FIRST], entry[MIDDLE], entry[LAST]) = (path.first, path.middle, path.last);
            (entry[START], entry[STOPS]) = (from.start_and_length(), from.stops);
            (entry[INO], entry[LOST_NAMES], entry[CHANGES]) =
                (cached.ino.0, cached.lost_names, cached.changes);
            if length > TOLD_LENGTH {
                let to = entry.iter_mut().skip(WHOLE);
                to.zip(whole_words(from.path)).for_each(|(to, word)| *to = word);
            }
            entry
        });
        drop(writer);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Cached, MAX_LENGTH, PathCache, PathFrom};
    use crate::Ino;
    use crate::testing::TestSystem;
    use std::vec;

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
