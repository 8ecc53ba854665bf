//! Decides when listings of a mount's directories also ask for the inodes of the entries.
//!
//! Inodes cost the server more work than names. So a listing asks for inodes only after the program has
//! looked up a file, and as long as the program uses files of such listings.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Number of listings that ask for inodes after an inode of a listing was used.
const LISTINGS: u32 = 4;

/// Number of inodes that may find no room in the name cache before a listing continues without inodes.
const MAX_REFUSED: u32 = 32;

/// Value of the count if no listing asks for inodes again, because the server does not allow caching them.
const NEVER: u32 = u32::MAX;

/// State of the decision for a mount.
#[derive(Debug)]
pub(super) struct Listings {
    /// Number of listings that will ask for inodes, or [`NEVER`].
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
        // An error means that the count is `NEVER` and stays so.
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

    /// Notes that the name cache had no room for an inode.
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
