//! When listings of a mount's directories ask for the inodes of entries, too.
//!
//! A server has more work with that. So it is asked after a file was looked up, and as long as the files of a
//! listing are used.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Number of listings with inodes that the use of one such inode leads to.
const LISTINGS: u32 = 4;

/// Number of inodes for which there is no room, after which a listing goes on without them.
const MAX_REFUSED: u32 = 32;

/// A number of listings: inodes are not asked for any more, since they may not be kept.
const NEVER: u32 = u32::MAX;

/// Whether listings of a mount ask for inodes.
#[derive(Debug)]
pub(super) struct Listings {
    /// How many of the next ones do.
    count: AtomicU32,
    /// Number of inodes since the last change of that number for which there was no room.
    refused: AtomicU32,
}

impl Listings {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU32::new(0), refused: AtomicU32::new(0) }
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let unless_never = |count| (count != NEVER).then(|| change(count));
        // An error means that there is nothing to change.
        let _: Result<u32, u32> = self.count.fetch_update(Relaxed, Relaxed, unless_never);
        self.refused.store(0, Relaxed);
    }

    /// Notes that a file was asked for: the next listing is a try.
    pub(super) fn note_request(&self) {
        if self.count.load(Relaxed) == 0 {
            self.change(|count| count.max(1));
        }
    }

    /// Notes that a file of a listing was used.
    pub(super) fn note_use(&self) {
        self.change(|_| LISTINGS);
    }

    /// Notes that a directory was read to its end.
    pub(super) fn note_end(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    /// Notes that there was no room for an inode.
    pub(super) fn note_refused(&self) {
        if self.refused.fetch_add(1, Relaxed) >= MAX_REFUSED {
            self.change(|_| 0);
        }
    }

    /// Notes that inodes may not be kept.
    pub(super) fn stop_for_ever(&self) {
        self.count.store(NEVER, Relaxed);
    }

    /// Whether the next listing asks for inodes.
    pub(super) fn ask(&self) -> bool {
        !matches!(self.count.load(Relaxed), 0 | NEVER)
    }
}
