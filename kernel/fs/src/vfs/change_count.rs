//! Counts changes, so that a cache does not store a reply to a request from before or during a change.
//!
//! A caller that makes a request for the cache first reads the count ([`ChangeCount::unchanged`]), and stores
//! the reply only if the count is still the same. A change is counted before its request is made and again
//! after its end. So if the count is the same, no change was in progress at any time between the two reads.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::interface::system::AtomicU64;

/// Amount that a change which has ended adds. The bits below count the changes in progress, at most two for
/// each thread.
const ENDED: u64 = 1 << 20;

/// Number of changes in progress, and number of changes that have ended.
#[derive(Debug)]
pub(super) struct ChangeCount(AtomicU64);

/// The count at a time when no change was in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unchanged(u64);

/// A change in progress. Dropping it ends the change.
#[derive(Debug)]
pub(super) struct Change<'a>(&'a ChangeCount);

impl ChangeCount {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a change. The caller makes the request afterwards.
    #[inline]
    pub(super) fn begin(&self) -> Change<'_> {
        // A thread that sees an effect of the request also sees this count: the file system's lock orders
        // both.
        self.0.fetch_add(1, AcqRel);
        Change(self)
    }

    /// Returns the count, or `None` if a change is in progress.
    #[inline]
    pub(super) fn unchanged(&self) -> Option<Unchanged> {
        let count = self.0.load(Acquire);
        count.is_multiple_of(ENDED).then_some(Unchanged(count))
    }

    /// Returns true if no change has begun since `before`.
    #[inline]
    pub(super) fn is_still(&self, before: Unchanged) -> bool {
        self.0.load(Acquire) == before.0
    }
}

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_add(ENDED - 1, AcqRel);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::ChangeCount;

    #[test]
    fn count_differs_during_and_after_each_change() {
        let count = ChangeCount::new();
        let before = count.unchanged().unwrap();
        let (first, second) = (count.begin(), count.begin());
        assert!(!count.is_still(before));
        drop(first);
        assert_eq!(count.unchanged(), None);
        drop(second);
        assert!(!count.is_still(before));
        assert!(count.is_still(count.unchanged().unwrap()));
    }
}
