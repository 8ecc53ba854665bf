//! The time-stamp counter.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, _rdtsc};

/// Ticks since some moment in the past, read after everything that comes before it in the program.
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: every 64-bit processor has the instruction, which only waits.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    // SAFETY: every 64-bit processor has the counter, and nothing disabled it.
    unsafe { _rdtsc() }
}

/// Ticks per second as the processor itself states them (SDM volume 2, CPUID leaf 15h), if it does.
pub(crate) fn frequency() -> Option<u64> {
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let crystal = u64::from(leaf.ecx);
    (leaf.eax != 0 && leaf.ebx != 0 && crystal != 0)
        .then(|| crystal * u64::from(leaf.ebx) / u64::from(leaf.eax))
}
