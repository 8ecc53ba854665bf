//! The TLB of the calling CPU.

/// Flushes all TLB entries and paging-structure caches of this CPU (SDM volume 3, section 4.10.4.1: a write
/// to CR3). No page of the kernel is global.
#[inline]
pub(crate) fn flush() {
    x86_64::instructions::tlb::flush_all();
}
