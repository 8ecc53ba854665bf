//! CPUID entries of the vCPUs.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm};

use super::error::{KvmError, ioctl_failed};

/// Frequency of KVM's APIC timers in kHz.
const APIC_TIMER_KHZ: u32 = 1_000_000;

/// Leaf with the frequencies of the time-stamp counter and the APIC timer, in kHz (defined by VMware, read by Linux).
const HYPERVISOR_FREQUENCIES: u32 = 0x4000_0010;

/// Leaf with the hypervisor's signature and highest leaf.
const HYPERVISOR: u32 = 0x4000_0000;

/// Leaf 1, ecx: the APIC timer has a TSC-deadline mode.
const TSC_DEADLINE: u32 = 1 << 24;

/// Returns all that this host's KVM supports, adapted to vCPU `id` of `count`.
pub(super) fn entries(kvm: &Kvm, id: u32, count: u32, tsc_khz: u32) -> Result<CpuId, KvmError> {
    let mut entries =
        kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(ioctl_failed("list CPUID entries"))?;
    let has_deadline = kvm.check_extension(Cap::TscDeadlineTimer);
    for entry in entries.as_mut_slice() {
        adapt(entry, id, count, has_deadline);
    }
    let frequencies = kvm_cpuid_entry2 {
        function: HYPERVISOR_FREQUENCIES,
        eax: tsc_khz,
        ebx: APIC_TIMER_KHZ,
        ..kvm_cpuid_entry2::default()
    };
    // Without room for the entry the kernel measures the frequencies.
    let _: Result<(), vmm_sys_util::fam::Error> = entries.push(frequencies);
    Ok(entries)
}

/// Sets the fields of an entry that depend on the vCPU, and those that KVM leaves to the hypervisor.
fn adapt(entry: &mut kvm_cpuid_entry2, id: u32, count: u32, has_deadline: bool) {
    match entry.function {
        1 => {
            // Initial APIC ID and number of IDs (SDM volume 2, CPUID, figure 3-7).
            entry.ebx = entry.ebx & 0xffff | id << 24 | count << 16;
            if has_deadline {
                entry.ecx |= TSC_DEADLINE;
            }
        }
        // Topology: every CPU is a core with one thread.
        0xb | 0x1f => {
            entry.edx = id;
            (entry.eax, entry.ebx, entry.ecx) = match entry.index {
                0 => (0, 1, 1 << 8),
                1 => (count.next_power_of_two().trailing_zeros(), count, 2 << 8 | 1),
                index => (0, 0, index),
            };
        }
        HYPERVISOR => entry.eax = entry.eax.max(HYPERVISOR_FREQUENCIES),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{TSC_DEADLINE, adapt};
    use kvm_bindings::kvm_cpuid_entry2;

    #[test]
    fn entries_carry_apic_id_and_cpu_count() {
        let mut entry = kvm_cpuid_entry2 { function: 1, ebx: 0xaabb_ccdd, ..Default::default() };
        adapt(&mut entry, 5, 8, false);
        assert_eq!((entry.ebx, entry.ecx), (0x0508_ccdd, 0));
        adapt(&mut entry, 5, 8, true);
        assert_eq!(entry.ecx, TSC_DEADLINE);
        let mut entry = kvm_cpuid_entry2 { function: 0xb, index: 1, ..Default::default() };
        adapt(&mut entry, 5, 6, false);
        assert_eq!((entry.eax, entry.ebx, entry.edx), (3, 6, 5));
    }
}
