//! What processors say of themselves.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm};

use super::{EngineError, failed};

/// Frequency of the APICs' timers, which is KVM's, in kHz.
const TIMER_KILOHERTZ: u32 = 1_000_000;

/// The leaf with the frequencies of time-stamp counter and APIC timer (defined by VMware, understood by Linux).
const FREQUENCIES: u32 = 0x4000_0010;

/// The leaf that says who the hypervisor is, and which is its last.
const HYPERVISOR: u32 = 0x4000_0000;

/// The APIC's timer takes a value of the time-stamp counter (leaf 1, ecx).
const TSC_DEADLINE: u32 = 1 << 24;

/// Everything that this host's KVM can do, for the processor of this number out of `count`.
pub(super) fn leaves(kvm: &Kvm, number: u32, count: u32, tsc_kilohertz: u32) -> Result<CpuId, EngineError> {
    let mut leaves =
        kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("say what processors can do"))?;
    let has_deadline = kvm.check_extension(Cap::TscDeadlineTimer);
    for leaf in leaves.as_mut_slice() {
        adapt(leaf, number, count, has_deadline);
    }
    let frequencies = kvm_cpuid_entry2 {
        function: FREQUENCIES,
        eax: tsc_kilohertz,
        ebx: TIMER_KILOHERTZ,
        ..kvm_cpuid_entry2::default()
    };
    // Without room the kernel measures.
    let _: Result<(), vmm_sys_util::fam::Error> = leaves.push(frequencies);
    Ok(leaves)
}

/// Numbers a leaf that names the processor, and adds what KVM leaves to the hypervisor to say.
fn adapt(leaf: &mut kvm_cpuid_entry2, number: u32, count: u32, has_deadline: bool) {
    match leaf.function {
        1 => {
            // APIC identifier and number of identifiers (SDM volume 2, CPUID, figure 3-7).
            leaf.ebx = leaf.ebx & 0xffff | number << 24 | count << 16;
            if has_deadline {
                leaf.ecx |= TSC_DEADLINE;
            }
        }
        // Topology: every processor is a core with one thread.
        0xb | 0x1f => {
            leaf.edx = number;
            (leaf.eax, leaf.ebx, leaf.ecx) = match leaf.index {
                0 => (0, 1, 1 << 8),
                1 => (count.next_power_of_two().trailing_zeros(), count, 2 << 8 | 1),
                index => (0, 0, index),
            };
        }
        HYPERVISOR => leaf.eax = leaf.eax.max(FREQUENCIES),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{TSC_DEADLINE, adapt};
    use kvm_bindings::kvm_cpuid_entry2;

    #[test]
    fn processors_have_their_numbers() {
        let mut leaf = kvm_cpuid_entry2 { function: 1, ebx: 0xaabb_ccdd, ..Default::default() };
        adapt(&mut leaf, 5, 8, false);
        assert_eq!((leaf.ebx, leaf.ecx), (0x0508_ccdd, 0));
        adapt(&mut leaf, 5, 8, true);
        assert_eq!(leaf.ecx, TSC_DEADLINE);
        let mut leaf = kvm_cpuid_entry2 { function: 0xb, index: 1, ..Default::default() };
        adapt(&mut leaf, 5, 6, false);
        assert_eq!((leaf.eax, leaf.ebx, leaf.edx), (3, 6, 5));
    }
}
