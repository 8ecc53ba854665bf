//! Counts the memory that a file system uses, and limits it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::Errno;

/// Memory in use and its limit, in bytes.
#[derive(Debug)]
pub(crate) struct Usage {
    used: AtomicU64,
    max: u64,
}

impl Usage {
    /// Creates a counter that starts at 0.
    pub(crate) const fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max }
    }

    /// Counts memory that is about to be allocated.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if it would exceed the limit.
    pub(crate) fn charge(&self, size: u64) -> Result<(), Errno> {
        let charged = |used: u64| used.checked_add(size).filter(|charged| *charged <= self.max);
        self.used.fetch_update(Relaxed, Relaxed, charged).map(drop).map_err(|_| Errno::ENOSPC)
    }

    /// Counts memory that was freed.
    #[inline]
    pub(crate) fn release(&self, size: u64) {
        if size != 0 {
            self.used.fetch_sub(size, Relaxed);
        }
    }

    /// Returns the limit, and the part of it that is free.
    pub(crate) fn limit_and_free(&self) -> (u64, u64) {
        (self.max, self.max.saturating_sub(self.used.load(Relaxed)))
    }
}
