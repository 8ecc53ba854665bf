//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! The protocol is that of [`hermit_paging::Shootdown`]. Several CPUs may request flushes at the same time,
//! with or without the memory lock. The other CPUs flush in the handler of an IPI, which the software
//! interrupt mask does not delay, or while they spin for a lock or for other CPUs to flush. So a CPU that
//! holds a lock never waits for a CPU that waits for this lock, and no two CPUs wait for each other. Idle
//! CPUs flush when an interrupt wakes them, before its handler runs.

use hermit_paging::{FlushScope, Shootdown};

use crate::arch::{local, tlb};
use crate::backoff::Backoff;

/// The CPUs that use the page tables.
static SHOOTDOWN: Shootdown = Shootdown::new();

/// Includes the first CPU in flushes. It calls this before it changes the page tables, so its TLB has nothing
/// to flush.
pub(crate) fn init() {
    SHOOTDOWN.join(local::number(), || ());
}

/// Includes the calling CPU, which has just started, in flushes from now on.
pub(crate) fn join() {
    SHOOTDOWN.join(local::number(), tlb::flush);
}

/// Returns true if other CPUs take part in flushes.
pub(crate) fn has_others() -> bool {
    SHOOTDOWN.has_others(local::number())
}

/// Flushes the TLB of this CPU if another one has requested it.
#[inline]
pub(crate) fn flush_if_requested() {
    SHOOTDOWN.flush_if_behind(local::number(), tlb::flush);
}

/// Exempts the calling CPU, which is about to wait for an interrupt, from flushes of pages. From now on it
/// uses only memory that is never unmapped: its own stack and block, the image, the direct map.
pub(crate) fn enter_idle() {
    SHOOTDOWN.enter_idle(local::number());
}

/// Ends [`enter_idle`] if it was called, and does the flushes that this CPU has missed.
#[inline]
pub(crate) fn leave_idle() {
    SHOOTDOWN.leave_idle(local::number(), tlb::flush);
}

/// Flushes the TLBs of all CPUs. `send_ipi` interrupts the CPUs in a mask, so that they call
/// [`flush_if_requested`]. Returns when all have flushed. Interrupts must be masked, so that the thread stays
/// on this CPU.
pub(crate) fn flush_all_cpus(scope: FlushScope, send_ipi: impl FnOnce(u64)) {
    debug_assert!(local::mask_depth() != 0, "the thread may move to another CPU");
    let mut backoff = Backoff::default();
    SHOOTDOWN.flush_all(local::number(), scope, tlb::flush, send_ipi, || {
        // Polled, since not every caller accepts the IPI: the page fault handler does not.
        flush_if_requested();
        backoff.wait();
    });
}
