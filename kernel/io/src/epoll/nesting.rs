//! Epoll instances in each other: no cycles, and a limited depth.
//!
//! Each check visits an instance once, by however many ways it can be reached.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_interface::Errno;
use lock_api::RawMutex;

use super::set::Entry;
use super::{Epoll, TryArc};

/// Maximum number of instances in each other below the outermost one, as on Linux: wake-ups and looks recurse
/// that deep.
const MAX_NESTING: u32 = 4;

/// Nesting of an instance: how many instances are above and below it. It is changed by one check at a time,
/// as callers of [`Epoll::add`] ensure.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Number of instances above this one, at most, ever since it was created.
    above: AtomicU32,
    /// The last check that has visited this instance.
    check: AtomicU64,
    /// Number of instances in each other below this one, as that check has found.
    below: AtomicU32,
}

/// A check of whether an instance may be added to another one.
#[derive(Debug)]
struct Check {
    /// Number of the check.
    number: u64,
    /// Number of instances that it has visited.
    visited: usize,
}

impl Check {
    /// A check with a number of its own.
    fn new() -> Self {
        static CHECKS: AtomicU64 = AtomicU64::new(0);
        Self { number: CHECKS.fetch_add(1, Relaxed) + 1, visited: 0 }
    }
}

impl<R: RawMutex + Send + Sync + 'static, A: TryArc> Epoll<R, A> {
    /// Checks that an instance may be added. Returns how many would be above it.
    pub(super) fn check_nesting(&self, nested: &Self) -> Result<u32, Errno> {
        let above = self.shared.nesting.above.load(Relaxed) + 1;
        let below = nested.depth_without(self, above, &mut Check::new())?;
        if above + below > MAX_NESTING { Err(Errno::ELOOP) } else { Ok(above) }
    }

    /// Number of instances in each other below this one; `ELOOP` if `other` is among them.
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

    /// Notes that `above` instances are above this one. Those below know it if this one did.
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
