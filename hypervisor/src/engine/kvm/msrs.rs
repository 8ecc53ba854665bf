//! MSRs that a guest may access: only those that its kernel uses. KVM implements more than a hundred MSRs,
//! and a hostile guest could attack the code of each.

use kvm_bindings::KVM_CAP_X86_MSR_FILTER;
use kvm_ioctls::{Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VmFd};

use super::error::{KvmError, ioctl_failed};

/// First MSR and number of MSRs of each range (SDM volume 4; for KVM's own MSRs,
/// Documentation/virt/kvm/x86/msr.rst). The MSRs of x2APIC are accessible, too, because KVM does not filter
/// them.
const ALLOWED: [(u32, u32); 5] = [
    // IA32_APIC_BASE.
    (0x1b, 1),
    // IA32_TSC_DEADLINE.
    (0x6e0, 1),
    // MSR_KVM_WALL_CLOCK_NEW, MSR_KVM_SYSTEM_TIME_NEW.
    (0x4b56_4d00, 2),
    // IA32_EFER.
    (0xc000_0080, 1),
    // IA32_FS_BASE, IA32_GS_BASE.
    (0xc000_0100, 2),
];

/// Bitmap with a set bit for each MSR of a range, so that all MSRs of the range are allowed. It has 64 bits,
/// because KVM reads whole 64-bit words.
static ALL: [u8; 8] = [0xff; 8];

/// Returns true if KVM can refuse accesses to MSRs. `supported` returns KVM's value of a capability, which is
/// 0 or negative if KVM lacks it.
pub(super) fn can_filter(supported: &impl Fn(u32) -> i32) -> bool {
    supported(KVM_CAP_X86_MSR_FILTER) > 0
}

/// Makes accesses to all other MSRs raise #GP, if KVM supports this (Linux 5.10).
pub(super) fn restrict(kvm: &Kvm, vm: &VmFd) -> Result<(), KvmError> {
    if !can_filter(&|capability| kvm.check_extension_raw(capability.into())) {
        return Ok(());
    }
    let flags = MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE;
    let ranges = ALLOWED.map(|(base, msr_count)| MsrFilterRange { flags, base, msr_count, bitmap: &ALL });
    vm.set_msr_filter(MsrFilterDefaultAction::DENY, &ranges).map_err(ioctl_failed("restrict MSRs"))
}
