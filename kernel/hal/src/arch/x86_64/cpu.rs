//! What the processor can do, and switching it on.

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

use super::{context, preempt};

/// Whether XSAVE may be used. Programs without vector registers do not need it, and a KVM that emulates instructions may
/// show what the host's processor has and not know it.
const XSAVE: bool = !cfg!(feature = "soft-float");

/// Bits of XCR0 for registers of matrices (AMX): a program must ask Linux for them first, which it cannot here.
const TILES: u64 = 0b11 << 17;

/// What XSAVE writes in any case, in bytes (SDM volume 1, section 13.4).
const LEGACY_AND_HEADER: u32 = 512 + 64;

/// Whether the processor has a feature, as CPUID says (SDM volume 2, CPUID).
fn has(leaf: u32, register: fn(&CpuidResult) -> u32, bit: u32) -> bool {
    let base = leaf & 0x8000_0000;
    leaf <= __cpuid(base).eax && register(&__cpuid_count(leaf, 0)) & 1 << bit != 0
}

/// Switches on what programs and the kernel's protection use.
pub(super) fn init() {
    let ecx = |leaf: &CpuidResult| leaf.ecx;
    let ebx = |leaf: &CpuidResult| leaf.ebx;
    let mut flags = Cr4::read() | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    let protections = [
        (has(7, ebx, 7), Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION),
        (has(7, ebx, 20), Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION),
        (has(7, ecx, 2), Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),
        (has(7, ebx, 0), Cr4Flags::FSGSBASE),
        (XSAVE && has(1, ecx, 26), Cr4Flags::OSXSAVE),
    ];
    for (_, flag) in protections.iter().filter(|(present, _)| *present) {
        flags |= *flag;
    }
    // SAFETY: only features that the processor has are switched on, and none of them restricts the kernel: no
    // page is a user's.
    unsafe { Cr4::write(flags) };
    let cr0 = Cr0::read() - Cr0Flags::EMULATE_COPROCESSOR - Cr0Flags::TASK_SWITCHED;
    // SAFETY: read-only pages stay read-only for the kernel, and floating point does not trap.
    unsafe { Cr0::write(cr0 | Cr0Flags::WRITE_PROTECT | Cr0Flags::MONITOR_COPROCESSOR) };
    // SAFETY: `fninit` puts the x87 unit into its initial state; no code before this used it.
    unsafe { core::arch::asm!("fninit", options(nomem, nostack)) };
    if XSAVE && flags.contains(Cr4Flags::OSXSAVE) {
        enable_vectors();
    }
    if flags.contains(Cr4Flags::FSGSBASE) {
        context::use_fsgsbase();
    }
}

/// Uses what somebody else has switched on, where the kernel has no right to do so. `false` if that is not enough.
pub(crate) fn adopt() -> bool {
    let has_xsave = has(1, |leaf| leaf.ecx, 27);
    if XSAVE && has_xsave {
        save_by_xsave(XCr0::read_raw() & !TILES);
    }
    has(7, |leaf| leaf.ebx, 0)
}

/// Enables the vector registers that the processor has and XSAVE can manage; AVX-512 only with all its parts.
fn enable_vectors() {
    let supported = XCr0Flags::from_bits_truncate(__cpuid_count(0xd, 0).eax.into());
    let wide = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
    let mut flags = XCr0Flags::X87 | XCr0Flags::SSE;
    flags |= supported & XCr0Flags::AVX;
    if supported.contains(wide | XCr0Flags::AVX) {
        flags |= wide;
    }
    // SAFETY: OSXSAVE is set, and only supported combinations are enabled.
    unsafe { XCr0::write(flags) };
    save_by_xsave(flags.bits());
}

/// Registers that preemption saves; all of them are enabled.
fn save_by_xsave(components: u64) {
    let components = u32::try_from(components).unwrap_or(u32::MAX);
    // Where the last of them ends (SDM volume 1, section 13.4.3); the first two are in the part that is always there.
    let end = |component: u32| {
        let leaf = __cpuid_count(0xd, component);
        leaf.ebx + leaf.eax
    };
    let ends = (2..u32::BITS).filter(|component| components & 1 << component != 0).map(end);
    preempt::use_xsave(components, ends.fold(LEGACY_AND_HEADER, u32::max));
}

/// Whether the processor has a local APIC.
pub(crate) fn has_apic() -> bool {
    has(1, |leaf| leaf.edx, 9)
}

/// Whether the local APIC has model-specific registers.
pub(crate) fn has_x2apic() -> bool {
    has(1, |leaf| leaf.ecx, 21)
}

/// Whether the local APIC's timer can be told a value of the time-stamp counter.
pub(crate) fn has_tsc_deadline() -> bool {
    has(1, |leaf| leaf.ecx, 24)
}

/// Whether the time-stamp counter runs at one rate, whatever the processor does, and the same on all of them.
pub(crate) fn has_invariant_tsc() -> bool {
    has(0x8000_0007, |leaf| leaf.edx, 8)
}

/// First leaf of what a hypervisor says.
const HYPERVISOR: u32 = 0x4000_0000;

/// The leaf of this number of what a hypervisor says, if there is one that says it.
pub(crate) fn hypervisor_leaf(number: u32) -> Option<CpuidResult> {
    let present = has(1, |leaf| leaf.ecx, 31) && __cpuid(HYPERVISOR).eax >= HYPERVISOR + number;
    present.then(|| __cpuid(HYPERVISOR + number))
}

/// Who the hypervisor says it is: twelve letters.
pub(crate) fn hypervisor() -> Option<[u32; 3]> {
    hypervisor_leaf(0).map(|leaf| [leaf.ebx, leaf.ecx, leaf.edx])
}

/// Sets the processor's interrupt flag.
pub(crate) fn enable_interrupts() {
    x86_64::instructions::interrupts::enable();
}

/// Halts until an interrupt, unless `woken` is true already; the question is asked with interrupts off, so no
/// interrupt is missed.
pub(crate) fn wait_unless(woken: &dyn Fn() -> bool) {
    x86_64::instructions::interrupts::disable();
    if woken() {
        x86_64::instructions::interrupts::enable();
    } else {
        x86_64::instructions::interrupts::enable_and_hlt();
    }
}

/// Stops this CPU for good.
pub(crate) fn stop() -> ! {
    x86_64::instructions::interrupts::disable();
    loop {
        x86_64::instructions::hlt();
    }
}
