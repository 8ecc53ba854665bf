//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! The protocol is [`hermit_paging::Shootdown`]'s. One CPU at a time requests a flush: it holds the memory lock. The
//! others flush in the handler of an IPI, which the software interrupt mask does not hold back, or while they spin for
//! a lock; so no CPU that holds a lock waits for one that waits for this lock.

use hermit_paging::Shootdown;

use crate::arch::{local, tlb};
use crate::backoff::Backoff;

/// The CPUs that use the page tables; at first the first one.
static SHOOTDOWN: Shootdown = Shootdown::new(0);

/// Includes this CPU in flushes from now on.
pub(crate) fn join() {
    SHOOTDOWN.join(local::number(), tlb::flush);
}

/// Whether other CPUs take part in flushes.
pub(crate) fn has_others() -> bool {
    SHOOTDOWN.has_others(local::number())
}

/// Flushes the TLB of this CPU if another one has requested it.
#[inline]
pub(crate) fn flush_if_requested() {
    if SHOOTDOWN.is_requested() {
        SHOOTDOWN.flush_if_requested(local::number(), tlb::flush);
    }
}

/// Flushes the TLBs of all CPUs; `send_ipi` interrupts the others so that they call [`flush_if_requested`]. Returns
/// when all have flushed. The memory lock is held.
pub(crate) fn flush_all_cpus(send_ipi: impl FnOnce()) {
    let mut backoff = Backoff::default();
    SHOOTDOWN.flush_all(local::number(), tlb::flush, send_ipi, || backoff.wait());
}
