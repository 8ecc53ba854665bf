//! Decides when listings of a mount's directories also ask for the inodes of the entries.
//!
//! These cost the server more work. So it is asked for them after a file was looked up, and as long as files
//! of a listing are used.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Number of listings with inodes that follow the use of one such inode.
const LISTINGS: u32 = 4;

/// Number of inodes that find no room in the name cache until a listing goes on without inodes.
const MAX_REFUSED: u32 = 32;

/// Value of the count if inodes are never asked for again, since the server does not let them be cached.
const NEVER: u32 = u32::MAX;

/// State of the decision for a mount.
#[derive(Debug)]
pub(super) struct Listings {
    /// Number of the next listings that ask for inodes.
    count: AtomicU32,
    /// Number of inodes that found no room since the count last changed.
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

    /// Notes that a file was looked up: the next listing asks for inodes as a trial.
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

    /// Notes that inodes may not be cached.
    pub(super) fn stop_for_ever(&self) {
        self.count.store(NEVER, Relaxed);
    }

    /// Returns true if the next listing asks for inodes.
    pub(super) fn ask(&self) -> bool {
        !matches!(self.count.load(Relaxed), 0 | NEVER)
    }
}
