//! Giving the machine its memory: the one step whose safety the host's kernel cannot ensure.
#![expect(unsafe_code, reason = "KVM is told addresses of this process's memory")]

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

use super::{EngineError, failed};
use crate::memory::Memory;

/// Gives the machine its memory.
pub(super) fn give(vm: &VmFd, memory: &Memory) -> Result<(), EngineError> {
    for (slot, region) in (0..).zip(memory.guest().iter()) {
        let host = region.get_host_address(MemoryRegionAddress(0));
        let host = host.map_err(|_| EngineError::Lacks("address of the machine's memory"))?;
        let description = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: host.addr() as u64,
        };
        // SAFETY: the range is a mapping of `memory`, which `KvmEngine` keeps as long as the machine, and which is only
        // ever accessed by volatile copies.
        unsafe { vm.set_user_memory_region(description) }.map_err(failed("take the machine's memory"))?;
    }
    Ok(())
}
