//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! The protocol only; the caller implements the flush of a CPU's own TLB and the inter-processor interrupt (IPI). One
//! CPU at a time requests flushes. Each of the others takes its request, flushes, and then reports that it has
//! finished; it does so in the handler of the IPI or while it waits for something. The handler may interrupt the
//! other: whichever of the two has taken the request flushes, and no second request is made before it has reported.
//!
//! ```
//! use hermit_paging::Shootdown;
//!
//! let shootdown = Shootdown::new(0);
//! shootdown.join(1, || ());
//! let answer = || shootdown.flush_if_requested(1, || println!("CPU 1 flushes its TLB"));
//! // Here CPU 1 answers at once; in a kernel it answers from the handler of the IPI.
//! shootdown.flush_all(0, || println!("CPU 0 flushes its TLB"), answer, || unreachable!());
//! assert!(!shootdown.is_requested());
//! ```

#[cfg(test)]
#[cfg(loom)]
mod models;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64};

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64};

/// The CPUs that use the same page tables, and requests to flush their TLBs. CPU numbers are below 64.
#[derive(Debug)]
pub struct Shootdown {
    /// CPUs that take part, one bit each.
    active: AtomicU64,
    /// CPUs that have not taken the current request, one bit each.
    requested: AtomicU64,
    /// Number of CPUs that have not finished the current request.
    unfinished: AtomicU32,
}

const fn bit(cpu: u32) -> u64 {
    1 << (cpu % u64::BITS)
}

impl Shootdown {
    /// Page tables that only one CPU uses so far.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(cpu: u32) -> Self {
        Self { active: AtomicU64::new(bit(cpu)), requested: AtomicU64::new(0), unfinished: AtomicU32::new(0) }
    }

    /// Page tables that only one CPU uses so far; loom's atomics cannot be made in constants.
    #[cfg(loom)]
    #[must_use]
    pub fn new(cpu: u32) -> Self {
        Self { active: AtomicU64::new(bit(cpu)), requested: AtomicU64::new(0), unfinished: AtomicU32::new(0) }
    }

    /// Includes a CPU, which calls this, in flushes from now on. `flush` flushes its TLB: earlier requests were not
    /// sent to it.
    pub fn join(&self, cpu: u32, flush: impl FnOnce()) {
        self.active.fetch_or(bit(cpu), AcqRel);
        flush();
    }

    /// Whether CPUs other than this one take part.
    #[must_use]
    pub fn has_others(&self, cpu: u32) -> bool {
        self.active.load(Acquire) & !bit(cpu) != 0
    }

    /// Whether any CPU has a request that it has not taken.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Relaxed) != 0
    }

    /// Calls `flush`, which flushes the TLB of the CPU that calls this, if that is requested.
    pub fn flush_if_requested(&self, cpu: u32, flush: impl FnOnce()) {
        // A handler that interrupts this CPU from here on finds no request: there is none but this one until it is
        // reported as finished below.
        if self.requested.load(Relaxed) & bit(cpu) == 0
            || self.requested.fetch_and(!bit(cpu), Acquire) & bit(cpu) == 0
        {
            return;
        }
        flush();
        self.unfinished.fetch_sub(1, Release);
    }

    /// Flushes the TLBs of all CPUs: `flush` that of the CPU that calls this, and orders the changes of the page
    /// tables before later loads; `send_ipi` interrupts the others so that they call [`Self::flush_if_requested`].
    /// Returns when all have flushed, and calls `wait` until then. Only one CPU at a time may call this.
    pub fn flush_all(&self, cpu: u32, flush: impl FnOnce(), send_ipi: impl FnOnce(), mut wait: impl FnMut()) {
        flush();
        let others = self.active.load(Acquire) & !bit(cpu);
        if others == 0 {
            return;
        }
        self.unfinished.store(others.count_ones(), Relaxed);
        self.requested.store(others, Release);
        send_ipi();
        while self.unfinished.load(Acquire) != 0 {
            wait();
        }
    }
}
