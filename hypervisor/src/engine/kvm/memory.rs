//! KVM memory slots.
#![expect(unsafe_code, reason = "KVM gets addresses of this process's memory")]

use kvm_bindings::kvm_userspace_memory_region;
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

use super::KvmVm;
use super::error::{KvmError, ioctl_failed};

impl KvmVm {
    /// Registers each region of the VM's memory as a memory slot. Only [`KvmVm::new`] calls it, once.
    pub(super) fn set_memory_regions(&self) -> Result<(), KvmError> {
        for (slot, region) in (0..).zip(self.memory.guest().iter()) {
            let host = region.get_host_address(MemoryRegionAddress(0));
            let host = host.map_err(|_| KvmError::Unsupported("address of guest memory"))?;
            let description = kvm_userspace_memory_region {
                slot,
                flags: 0,
                guest_phys_addr: region.start_addr().0,
                memory_size: region.len(),
                userspace_addr: host.addr() as u64,
            };
            // SAFETY: address and size describe one region of `self.memory`, which is a separate mapping. The
            // region stays mapped as long as the guest can run: the mapping is reference-counted, and each
            // object with a descriptor by which KVM runs the guest, this one and every `KvmVcpu`, holds a
            // clone of the memory and drops it after the descriptor. The guest's writes are no data race for
            // Rust, since this process has no references into the mapping: vm-memory accesses it by volatile
            // copies and atomics.
            unsafe { self.fd.set_user_memory_region(description) }
                .map_err(ioctl_failed("set a memory slot"))?;
        }
        Ok(())
    }
}
