//! Processor features: detection by CPUID, and control registers; halting and the interrupt flag.
//!
//! Each CPU enables the features at its start ([`init`]). It also stores which features the kernel may use
//! later. All CPUs of a machine have the same features, so all store the same. In a process, Linux has
//! enabled the features already, and the kernel only checks for those that it needs ([`adopt`]).

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

use super::{context, preempt};

/// True if the kernel may use XSAVE. Soft-float programs do not need it. They also run on KVM without VMX or
/// SVM (software emulation), which may report XSAVE in CPUID although its instruction emulator lacks it.
const XSAVE: bool = !cfg!(feature = "soft-float");

/// AMX tile state in XCR0. Linux enables it for a process only on request (`arch_prctl`), which the kernel
/// may not make.
const TILES: u64 = 0b11 << 17;

/// Bytes of the legacy region and the XSAVE header (SDM volume 1, section 13.4).
const LEGACY_AND_HEADER: u32 = 512 + 64;

/// Instructions of the processor. Valid after the first CPU was prepared; all CPUs of a machine have the
/// same.
static INSTRUCTIONS: AtomicU8 = AtomicU8::new(0);

/// Bits of [`INSTRUCTIONS`].
const FAST_STRINGS: u8 = 1 << 0;
const RDRAND: u8 = 1 << 1;
const RDSEED: u8 = 1 << 2;
const WIDE_VECTORS: u8 = 1 << 3;

/// State components in XCR0 that are registers of AVX: SSE, and the upper halves.
const AVX: u64 = 0b11 << 1;

/// Returns true if `rep movsb` and `rep stosb` are fast (ERMS). Valid after the CPU was prepared.
pub(crate) fn has_fast_strings() -> bool {
    INSTRUCTIONS.load(Relaxed) & FAST_STRINGS != 0
}

/// Returns true if the processor has AVX2 and FMA, and AVX's registers are enabled. Valid after the CPU was
/// prepared.
pub(crate) fn has_wide_vectors() -> bool {
    INSTRUCTIONS.load(Relaxed) & WIDE_VECTORS != 0
}

/// Returns true if the processor has RDRAND. Valid after the CPU was prepared.
pub(super) fn has_rdrand() -> bool {
    INSTRUCTIONS.load(Relaxed) & RDRAND != 0
}

/// Returns true if the processor has RDSEED. Valid after the CPU was prepared.
pub(super) fn has_rdseed() -> bool {
    INSTRUCTIONS.load(Relaxed) & RDSEED != 0
}

/// Stores the instructions that leaves 1 and 7 report and that the enabled state components permit.
fn store_instructions(basic: CpuidResult, extended: CpuidResult, components: u64) {
    let has_wide_vectors = has(extended.ebx, 5) && has(basic.ecx, 12) && components & AVX == AVX;
    let bit = |is_present, bit| if is_present { bit } else { 0 };
    let instructions = bit(has(extended.ebx, 9), FAST_STRINGS)
        | bit(has(basic.ecx, 30), RDRAND)
        | bit(has(extended.ebx, 18), RDSEED)
        | bit(has_wide_vectors, WIDE_VECTORS);
    INSTRUCTIONS.store(instructions, Relaxed);
}

/// A leaf of CPUID (SDM volume 2, CPUID). It is all zero if the processor does not have the leaf. In a
/// virtual machine, each execution of CPUID exits to the hypervisor, which takes microseconds.
fn leaf(number: u32) -> CpuidResult {
    // Each 64-bit processor has leaf 1.
    if number <= 1 || number <= __cpuid(number & 0x8000_0000).eax {
        __cpuid_count(number, 0)
    } else {
        CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }
    }
}

/// Returns true if a bit of a register is set.
const fn has(register: u32, bit: u32) -> bool {
    register & 1 << bit != 0
}

/// Enables the features that programs and the kernel's protection use.
pub(super) fn init() {
    let (basic, features) = (leaf(1), leaf(7));
    let mut flags = Cr4::read() | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    let protections = [
        (has(features.ebx, 7), Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION),
        (has(features.ebx, 20), Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION),
        (has(features.ecx, 2), Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),
        (has(features.ebx, 0), Cr4Flags::FSGSBASE),
        (XSAVE && has(basic.ecx, 26), Cr4Flags::OSXSAVE),
    ];
    for (_, flag) in protections.iter().filter(|(present, _)| *present) {
        flags |= *flag;
    }
    // SAFETY: CPUID reports every feature that is enabled. SMEP, SMAP and UMIP only concern user pages and
    // user mode, which this kernel does not have.
    unsafe { Cr4::write(flags) };
    let cr0 = Cr0::read() - Cr0Flags::EMULATE_COPROCESSOR - Cr0Flags::TASK_SWITCHED;
    // SAFETY: write protection makes the kernel respect read-only pages, which it never writes to; the other
    // bits let floating-point instructions execute without a trap.
    unsafe { Cr0::write(cr0 | Cr0Flags::WRITE_PROTECT | Cr0Flags::MONITOR_COPROCESSOR) };
    // SAFETY: FNINIT resets the x87 unit. Kernel code does not use it, and no program has run on this CPU
    // yet.
    unsafe { core::arch::asm!("fninit", options(nomem, nostack)) };
    let components = if XSAVE && flags.contains(Cr4Flags::OSXSAVE) { enable_vectors() } else { 0 };
    store_instructions(basic, features, components);
    if flags.contains(Cr4Flags::FSGSBASE) {
        // SAFETY: it has been enabled on this CPU just now, and all CPUs of a machine have the same features,
        // so each secondary CPU enables it here before it runs a thread.
        unsafe { context::use_fsgsbase() };
    }
}

/// Finds the features that Linux has enabled, for a kernel without privilege. Returns false if a feature that
/// the kernel needs is missing.
pub(crate) fn adopt() -> bool {
    // A processor without leaf 7 lacks FSGSBASE, which Linux has enabled (`hermit_interface::process`).
    let (basic, features) = (leaf(1), __cpuid_count(7, 0));
    let components = if XSAVE && has(basic.ecx, 27) { XCr0::read_raw() & !TILES } else { 0 };
    if components != 0 {
        save_by_xsave(components);
    }
    store_instructions(basic, features, components);
    has(features.ebx, 0)
}

/// Enables the vector registers that the processor has and XSAVE can manage. Enables AVX-512 only with all
/// its parts. Returns the state components.
fn enable_vectors() -> u64 {
    let supported = XCr0Flags::from_bits_truncate(__cpuid_count(0xd, 0).eax.into());
    let wide = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
    let mut flags = XCr0Flags::X87 | XCr0Flags::SSE;
    flags |= supported & XCr0Flags::AVX;
    if supported.contains(wide | XCr0Flags::AVX) {
        flags |= wide;
    }
    // SAFETY: CR4.OSXSAVE is set, so XSETBV executes; CPUID leaf 0Dh reports every component that is enabled,
    // and AVX-512 is enabled with all its components or not at all, as XSETBV demands.
    unsafe { XCr0::write(flags) };
    save_by_xsave(flags.bits());
    flags.bits()
}

/// Makes preemption save these state components. All of them are enabled in XCR0.
fn save_by_xsave(components: u64) {
    // EBX of the leaf has the size for all components that are enabled in XCR0. If these are the wanted ones,
    // one execution of CPUID, which exits to a hypervisor, is enough.
    let size = if components == XCr0::read_raw() { __cpuid_count(0xd, 0).ebx } else { area_size(components) };
    preempt::use_xsave(u32::try_from(components).unwrap_or(u32::MAX), size.max(LEGACY_AND_HEADER));
}

/// Size of the XSAVE area for these state components: the end of the last component in the area (SDM volume
/// 1, section 13.4.3). x87 and SSE are in the legacy region.
fn area_size(components: u64) -> u32 {
    let end = |component: u32| {
        let leaf = __cpuid_count(0xd, component);
        leaf.ebx + leaf.eax
    };
    let ends = (2..u32::BITS).filter(|component| components & 1 << component != 0).map(end);
    ends.max().unwrap_or_default()
}

/// Returns true if the processor has a local APIC.
pub(crate) fn has_apic() -> bool {
    has(leaf(1).edx, 9)
}

/// Returns true if the local APIC has x2APIC mode, in which its registers are MSRs.
pub(crate) fn has_x2apic() -> bool {
    has(leaf(1).ecx, 21)
}

/// Returns true if the local APIC's timer has TSC-deadline mode.
pub(crate) fn has_tsc_deadline() -> bool {
    has(leaf(1).ecx, 24)
}

/// Returns true if the time-stamp counter runs at a constant rate in all power states (invariant TSC).
pub(super) fn has_invariant_tsc() -> bool {
    has(leaf(0x8000_0007).edx, 8)
}

/// First CPUID leaf of the hypervisor range.
const HYPERVISOR: u32 = 0x4000_0000;

/// A leaf of the hypervisor range of CPUID, given its offset in the range. `None` if there is no hypervisor,
/// or if it does not have the leaf.
pub(crate) fn hypervisor_leaf(number: u32) -> Option<CpuidResult> {
    let present = has(leaf(1).ecx, 31) && __cpuid(HYPERVISOR).eax >= HYPERVISOR + number;
    present.then(|| __cpuid(HYPERVISOR + number))
}

/// The hypervisor's signature: twelve letters in ebx, ecx, edx.
pub(crate) fn hypervisor() -> Option<[u32; 3]> {
    hypervisor_leaf(0).map(|leaf| [leaf.ebx, leaf.ecx, leaf.edx])
}

/// Sets the interrupt flag.
pub(crate) fn enable_interrupts() {
    x86_64::instructions::interrupts::enable();
}

/// Halts until an interrupt, unless `woken` is true already. `woken` is evaluated with the interrupt flag
/// clear, and HLT directly follows STI, so no interrupt between the check and the halt is lost.
pub(crate) fn wait_unless(woken: &dyn Fn() -> bool) {
    x86_64::instructions::interrupts::disable();
    if woken() {
        x86_64::instructions::interrupts::enable();
    } else {
        x86_64::instructions::interrupts::enable_and_hlt();
    }
}

/// Stops this CPU until it is reset.
pub(crate) fn stop() -> ! {
    x86_64::instructions::interrupts::disable();
    loop {
        x86_64::instructions::hlt();
    }
}
