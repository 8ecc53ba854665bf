//! The time-stamp counter.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, _rdtsc};

use hermit_interface::boot_info::BootInfo;

/// Ticks since some moment in the past. The counter is read after all earlier loads of the program (LFENCE).
#[inline]
pub(crate) fn now() -> u64 {
    // SAFETY: LFENCE is part of every 64-bit processor, and has no effect but to wait for earlier loads.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    // SAFETY: RDTSC is part of every 64-bit processor; the kernel runs at privilege level 0 or under Linux,
    // which leaves CR4.TSD clear, so the instruction does not fault.
    unsafe { _rdtsc() }
}

/// [`now`] in units of 2^20 ticks. The counter may be read a little before earlier loads of the program.
#[inline]
pub(crate) fn coarse() -> u64 {
    let ticks: u64;
    // One piece of assembly, so that only one register is in use afterwards. SAFETY: RDTSC is part of every
    // 64-bit processor; the kernel runs at privilege level 0 or under Linux, which leaves CR4.TSD clear, so
    // the instruction does not fault. The other instructions change the two registers that are declared, and
    // the flags.
    unsafe {
        asm!(
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "shr rax, 20",
            out("rax") ticks,
            out("rdx") _,
            options(nomem, nostack)
        );
    }
    ticks
}

/// Ticks per second, if the processor states them (SDM volume 2, CPUID leaf 15h).
pub(crate) fn frequency() -> Option<u64> {
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let crystal = u64::from(leaf.ecx);
    (leaf.eax != 0 && leaf.ebx != 0 && crystal != 0)
        .then(|| crystal * u64::from(leaf.ebx) / u64::from(leaf.eax))
}

/// Returns true if the counters of all CPUs run at one constant rate and agree (invariant TSC, CPUID leaf
/// 8000_0007h).
pub(crate) fn is_synchronized() -> bool {
    super::cpu::has_invariant_tsc()
}

/// Facts about the counter that the boot information states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootCounter {
    /// Ticks per second, if known.
    pub(crate) frequency: Option<u64>,
    /// The value of the counter at the moment of [`BootInfo::wall_clock`].
    pub(crate) at_wall_clock: u64,
}

/// Returns the facts about the counter that the boot information states.
pub(crate) fn from_boot(info: &BootInfo) -> BootCounter {
    let frequency = Some(info.counter_frequency).filter(|&frequency| frequency != 0);
    BootCounter { frequency, at_wall_clock: info.wall_clock_counter }
}
