//! CPUID entries of the vCPUs.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm};

use super::error::{KvmError, ioctl_failed};

/// Frequency of KVM's APIC timers in kHz.
const APIC_TIMER_KHZ: u32 = 1_000_000;

/// Leaf with the frequencies of the time-stamp counter and the APIC timer, in kHz (defined by VMware, read by
/// Linux).
const HYPERVISOR_FREQUENCIES: u32 = 0x4000_0010;

/// Leaf with the hypervisor's signature and highest leaf.
const HYPERVISOR: u32 = 0x4000_0000;

/// Leaf with KVM's paravirtual features.
const KVM_FEATURES: u32 = 0x4000_0001;

/// Leaf 1, ecx: the APIC timer has a TSC-deadline mode.
const TSC_DEADLINE: u32 = 1 << 24;

/// Features of leaf 0x4000_0001 that the kernel uses: `KVM_FEATURE_CLOCKSOURCE2`,
/// `KVM_FEATURE_CLOCKSOURCE_STABLE_BIT`.
const KVM_CLOCK: u32 = 1 << 3 | 1 << 24;

/// Leaves that no guest needs: performance counters and last-branch records, SGX, processor trace, SVM,
/// sampling and encryption of AMD.
const ABSENT_LEAVES: [u32; 9] =
    [0xa, 0x12, 0x14, 0x1c, 0x23, 0x8000_000a, 0x8000_001b, 0x8000_001f, 0x8000_0022];

/// Bits of leaf 1, ecx: 64-bit debug store, qualified debug store, VMX, SMX, performance capabilities.
const ABSENT_1_ECX: u32 = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 15;
/// Bit of leaf 1, edx: debug store.
const ABSENT_1_EDX: u32 = 1 << 21;
/// Bits of leaf 7, ebx: SGX, processor trace; ecx: SGX launch control; edx: architectural last-branch
/// records.
const ABSENT_7: [u32; 3] = [1 << 2 | 1 << 25, 1 << 30, 1 << 19];
/// Bits of leaf 0x8000_0001, ecx: SVM, sampling, lightweight profiling, performance counters.
const ABSENT_EXTENDED: u32 = 1 << 2 | 1 << 10 | 1 << 15 | 1 << 23 | 1 << 24 | 1 << 27 | 1 << 28;

/// Returns the features that this host's KVM supports and a guest needs. Nested virtualisation, performance
/// counters, and all paravirtual features of KVM except its clock are removed.
///
/// This is slow in a nested VM: Linux executes CPUID many times to list the features, and if this host is a
/// VM itself, each CPUID exits to the hypervisor below. The call then takes a millisecond.
pub(super) fn supported(kvm: &Kvm) -> Result<CpuId, KvmError> {
    let mut entries =
        kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(ioctl_failed("list CPUID entries"))?;
    entries.as_mut_slice().iter_mut().for_each(mask);
    Ok(entries)
}

/// Returns the [`supported`] entries, adapted to vCPU `id` of `count`.
pub(super) fn entries(kvm: &Kvm, supported: &CpuId, id: u32, count: u32, tsc_khz: u32) -> CpuId {
    let mut entries = supported.clone();
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
    // Fails if there is no room for the entry. Then the kernel measures the frequencies.
    let _: Result<(), vmm_sys_util::fam::Error> = entries.push(frequencies);
    entries
}

/// Removes features that no guest needs from an entry, because each feature is code of the host that a
/// hostile guest could reach.
fn mask(entry: &mut kvm_cpuid_entry2) {
    match entry.function {
        1 => {
            entry.ecx &= !ABSENT_1_ECX;
            entry.edx &= !ABSENT_1_EDX;
        }
        7 if entry.index == 0 => {
            let [ebx, ecx, edx] = ABSENT_7;
            (entry.ebx, entry.ecx, entry.edx) = (entry.ebx & !ebx, entry.ecx & !ecx, entry.edx & !edx);
        }
        0x8000_0001 => entry.ecx &= !ABSENT_EXTENDED,
        KVM_FEATURES => (entry.eax, entry.edx) = (entry.eax & KVM_CLOCK, 0),
        leaf if ABSENT_LEAVES.contains(&leaf) => {
            (entry.eax, entry.ebx, entry.ecx, entry.edx) = (0, 0, 0, 0);
        }
        _ => {}
    }
}

/// Sets the fields of an entry that depend on the vCPU, and the fields that KVM leaves to the hypervisor.
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
    use super::{KVM_CLOCK, TSC_DEADLINE, adapt, mask};
    use kvm_bindings::kvm_cpuid_entry2;

    #[test]
    fn mask_removes_nested_virtualisation_counters_and_paravirtual_features() {
        let masked = |function, index| {
            let [eax, ebx, ecx, edx] = [u32::MAX; 4];
            let mut entry = kvm_cpuid_entry2 { function, index, eax, ebx, ecx, edx, ..Default::default() };
            mask(&mut entry);
            [entry.eax, entry.ebx, entry.ecx, entry.edx]
        };
        let [_, _, ecx, edx] = masked(1, 0);
        assert_eq!((ecx & (1 << 5 | 1 << 15), edx & 1 << 21), (0, 0), "VMX, PDCM, DS");
        assert!(ecx & 1 << 28 != 0 && edx & 1 << 25 != 0, "AVX, SSE");
        assert_eq!(masked(0x8000_0001, 0)[2] & (1 << 2 | 1 << 23), 0, "SVM, PerfCtrExtCore");
        assert_eq!(masked(7, 0)[1] & (1 << 2 | 1 << 5 | 1 << 25), 1 << 5, "SGX, AVX2, PT");
        assert_eq!(masked(7, 1), [u32::MAX; 4]);
        assert_eq!(masked(0x4000_0001, 0), [KVM_CLOCK, u32::MAX, u32::MAX, 0]);
        for leaf in [0xa, 0x14, 0x8000_000a, 0x8000_0022] {
            assert_eq!(masked(leaf, 0), [0; 4], "{leaf:#x}");
        }
        assert_eq!(masked(0xd, 0), [u32::MAX; 4]);
    }

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
