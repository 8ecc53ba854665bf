//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! One CPU at a time requests a flush: it holds the memory lock. The others flush in the handler of an IPI, which
//! the software interrupt mask does not hold back, or while they spin for a lock; so no CPU that holds a lock waits
//! for one that waits for this lock.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::arch::{local, tlb};
use crate::backoff::Backoff;

/// The CPUs that use the page tables, one bit each.
static ACTIVE: AtomicU64 = AtomicU64::new(1);

/// The CPUs that have not flushed yet, one bit each.
static REQUESTED: AtomicU64 = AtomicU64::new(0);

fn this_cpu() -> u64 {
    1 << local::number()
}

/// Includes this CPU in flushes from now on.
pub(crate) fn join() {
    ACTIVE.fetch_or(this_cpu(), AcqRel);
    // Earlier requests were not sent to this CPU.
    tlb::flush();
}

/// Whether other CPUs take part in flushes.
pub(crate) fn has_others() -> bool {
    ACTIVE.load(Acquire) & !this_cpu() != 0
}

/// Flushes the TLB of this CPU if another one has requested it.
#[inline]
pub(crate) fn flush_if_requested() {
    if REQUESTED.load(Acquire) == 0 {
        return;
    }
    if REQUESTED.load(Acquire) & this_cpu() != 0 {
        tlb::flush();
        REQUESTED.fetch_and(!this_cpu(), Release);
    }
}

/// Flushes the TLBs of all CPUs; `send_ipi` interrupts the others so that they call [`flush_if_requested`]. Returns
/// when all have flushed. The memory lock is held.
pub(crate) fn flush_all_cpus(send_ipi: impl FnOnce()) {
    tlb::flush();
    let others = ACTIVE.load(Acquire) & !this_cpu();
    if others == 0 {
        return;
    }
    REQUESTED.store(others, Release);
    send_ipi();
    let mut backoff = Backoff::default();
    while REQUESTED.load(Relaxed) != 0 {
        backoff.wait();
    }
    core::sync::atomic::fence(Acquire);
}
