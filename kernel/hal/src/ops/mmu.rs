//! Maintenance of mappings.

use hermit_paging::{Access, FlushScope};

use crate::fallible::OutOfMemory;

/// Way in which memory returns to the host after the guest has freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryReturn {
    /// It stays with the guest.
    Never,
    /// A call: [`Mmu::return_memory`].
    ByCall,
    /// A device, if the machine has one for that.
    ByDevice,
}

/// Maintenance of mappings in addition to the page tables: of TLBs, and of the host's mappings where the page
/// tables are only a record of the kernel. [`Mmu::map`], [`Mmu::unmap`], [`Mmu::protect`] and
/// [`Mmu::can_map_more`] are called under the memory lock; [`Mmu::memory_return`], [`Mmu::has_other_tlbs`]
/// and [`Mmu::flush_tlb`] with or without it; [`Mmu::init_mappings`] and [`Mmu::return_memory`] without it.
pub(crate) trait Mmu: Sync {
    /// Called once, as soon as addresses can be reserved.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if no addresses are left for the platform.
    fn init_mappings(&self) -> Result<(), OutOfMemory> {
        Ok(())
    }

    /// Called after the page tables have mapped these addresses. `access` does not apply to device registers.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then nothing has changed.
    fn map(&self, address: u64, physical: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        let _ = (address, physical, size, access);
        Ok(())
    }

    /// Called before the page tables unmap these addresses, which are whole pages.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then nothing has changed.
    fn unmap(&self, address: u64, size: u64) -> Result<(), OutOfMemory> {
        let _ = (address, size);
        Ok(())
    }

    /// Called before the page tables change the access to these addresses, which are completely mapped.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then a part may have changed.
    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        let _ = (address, size, access);
        Ok(())
    }

    /// Returns true if the platform can make more mappings. Its reserve for the mappings of growing stacks
    /// does not count.
    fn can_map_more(&self) -> bool {
        true
    }

    /// Way in which memory returns to the host after the guest has freed it. All calls return the same.
    fn memory_return(&self) -> MemoryReturn {
        MemoryReturn::Never
    }

    /// With [`MemoryReturn::ByCall`], returns memory to the host: units of `RETURN_UNIT` bytes, at most
    /// `MAX_RETURNED` bytes in all (`hermit_interface::machine`). It stays mapped; its contents are lost.
    ///
    /// # Safety
    ///
    /// The caller must have allocated this memory, and nothing may use it until the call returns.
    unsafe fn return_memory(&self, physical: u64, size: u64) {
        let _ = (physical, size);
    }

    /// Returns true if other CPUs have TLBs, so that [`Mmu::flush_tlb`] waits for them.
    fn has_other_tlbs(&self) -> bool {
        false
    }

    /// Flushes the TLBs of all CPUs. When it returns, no CPU uses a mapping that was not in the page tables
    /// when it was called.
    fn flush_tlb(&self, scope: FlushScope);
}
