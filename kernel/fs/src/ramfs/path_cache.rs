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
    cached: Cached,
    bytes: [u8; MAX_LENGTH],
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

/// Index of the entry of a path.
#[inline]
fn index(path: &[u8]) -> usize {
    let mut hash = path.len() as u64;
    if let Some(end) = path.last_chunk::<WORD>() {
        for word in path.as_chunks::<WORD>().0 {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER).rotate_left(29);
        }
        // The last word overlaps the one before, unless the length is a multiple of its size.
        hash ^= u64::from_le_bytes(*end);
    } else if let (Some(start), Some(end)) = (path.first_chunk(), path.last_chunk()) {
        hash = (u64::from(u32::from_le_bytes(*start)) << u32::BITS) ^ u64::from(u32::from_le_bytes(*end));
    } else {
        hash = path.iter().fold(hash, |hash, byte| hash << 8 ^ u64::from(*byte));
    }
    to_usize(hash.wrapping_mul(MULTIPLIER) >> (u64::BITS - SIZE.ilog2()))
}

impl<S: System> PathCache<S> {
    /// A cache without entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        let cached = Cached { ino: Ino::ROOT, lost_names: 0, changes: 0 };
        let entry = CacheEntry { start: Ino::ROOT, stops: 0, length: 0, cached, bytes: [0; MAX_LENGTH] };
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
        let entry = self.entries[index(from.path) % SIZE].lock();
        let is_it = entry.length == length
            && entry.start == from.start
            && entry.stops == from.stops
            && entry.bytes.get(..length).is_some_and(|bytes| is_same(bytes, from.path));
        is_it.then_some(entry.cached)
    }

    /// Keeps a path, in place of another one. The inode is locked, and `changes` is from before the walk that has found it.
    #[inline(never)]
    pub(super) fn insert(&self, from: PathFrom<'_>, cached: Cached) {
        if !cached.changes.is_multiple_of(2) || cached.changes != self.changes() {
            return;
        }
        if from.path.len() > MAX_LENGTH {
            return;
        }
        let mut entry = self.entries[index(from.path) % SIZE].lock();
        if let Some(bytes) = entry.bytes.get_mut(..from.path.len()) {
            bytes.copy_from_slice(from.path);
            (entry.start, entry.stops) = (from.start, from.stops);
            (entry.length, entry.cached) = (from.path.len(), cached);
        }
    }
}
