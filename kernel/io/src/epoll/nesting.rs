//! Limits for epoll instances that watch each other: no cycles, and a maximum depth.
//!
//! A check visits each instance once, even if several paths lead to the instance. So the cost of a check is
//! limited by the number of instances, not by the number of paths.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_base::try_alloc::TryArc;
use hermit_interface::Errno;
use lock_api::RawMutex;

use super::Epoll;
use super::set::Entry;

/// Maximum number of levels of instances below the outermost instance, as on Linux. It limits the recursion
/// of wake-ups and of looks at the readiness.
const MAX_NESTING: u32 = 4;

/// Nesting of an instance: the number of levels above and below it. Only one check at a time changes it; the
/// callers of [`Epoll::add`] ensure this.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Maximum number of levels that were above this instance at any time since its creation.
    above: AtomicU32,
    /// Number of the last check that visited this instance.
    check: AtomicU64,
    /// Number of levels below this instance, as found by the check in `check`.
    below: AtomicU32,
}

/// A single check of whether an instance may be added to another instance.
#[derive(Debug)]
struct Check {
    /// Number of the check.
    number: u64,
    /// Number of instances that the check has visited.
    visited: usize,
}

impl Check {
    /// Creates a check with a unique number.
    fn new() -> Self {
        static CHECKS: AtomicU64 = AtomicU64::new(0);
        Self { number: CHECKS.fetch_add(1, Relaxed) + 1, visited: 0 }
    }
}

impl<R: RawMutex + Send + Sync + 'static, A: TryArc> Epoll<R, A> {
    /// Checks that `nested` may be added to this instance. Returns the number of levels that would be above
    /// `nested`.
    pub(super) fn check_nesting(&self, nested: &Self) -> Result<u32, Errno> {
        let above = self.shared.nesting.above.load(Relaxed) + 1;
        let below = nested.depth_without(self, above, &mut Check::new())?;
        if above + below > MAX_NESTING { Err(Errno::ELOOP) } else { Ok(above) }
    }

    /// Returns the number of levels of instances below this one. Fails with `ELOOP` if `other` is this
    /// instance or below it, or if the levels are more than [`MAX_NESTING`]. `above` is the number of levels
    /// above this instance.
    fn depth_without(&self, other: &Self, above: u32, check: &mut Check) -> Result<u32, Errno> {
        if Arc::ptr_eq(&self.shared, &other.shared) || above > MAX_NESTING {
            return Err(Errno::ELOOP);
        }
        let nesting = &self.shared.nesting;
        if nesting.check.load(Relaxed) == check.number {
            return Ok(nesting.below.load(Relaxed));
        }
        check.visited += 1;
        let mut depth = 0;
        self.for_each_nested(|nested| {
            depth = depth.max(nested.depth_without(other, above + 1, check)? + 1);
            Ok(())
        })?;
        nesting.below.store(depth, Relaxed);
        nesting.check.store(check.number, Relaxed);
        Ok(depth)
    }

    /// Notes that `above` levels are above this instance, and updates the instances below it. If the number
    /// does not grow, the instances below it are already up to date.
    pub(super) fn raise(&self, above: u32) {
        if self.shared.nesting.above.fetch_max(above, Relaxed) >= above {
            return;
        }
        let _: Result<(), Errno> = self.for_each_nested(|nested| {
            nested.raise(above + 1);
            Ok(())
        });
    }

    fn for_each_nested(&self, mut action: impl FnMut(&Self) -> Result<(), Errno>) -> Result<(), Errno> {
        let bound = {
            let set = self.shared.set.lock();
            if set.nested == 0 { 0 } else { set.bound() }
        };
        for number in 0..bound {
            let object = {
                let set = self.shared.set.lock();
                set.get(number).filter(|entry| entry.is_nested()).and_then(Entry::object)
            };
            if let Some(nested) = object.as_deref().and_then(Self::of) {
                action(nested)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
