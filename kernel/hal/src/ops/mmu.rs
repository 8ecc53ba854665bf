//! Maintenance of mappings.

use hermit_paging::{Access, FlushScope};

use crate::fallible::OutOfMemory;

/// Way in which memory that the guest has freed returns to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryReturn {
    /// It stays with the guest.
    Never,
    /// A call: [`Mmu::return_memory`].
    ByCall,
    /// A device, if the machine has one for that.
    ByDevice,
}

/// Maintenance of mappings beside the page tables: TLBs, and the host's mappings where the page tables are
/// only the kernel's record. [`Mmu::map`], [`Mmu::unmap`], [`Mmu::protect`] and [`Mmu::can_map_more`] are
/// called under the memory lock, [`Mmu::memory_return`], [`Mmu::has_other_tlbs`] and [`Mmu::flush_tlb`] with
/// it or without, [`Mmu::init_mappings`] and [`Mmu::return_memory`] without.
pub(crate) trait Mmu: Sync {
    /// Called once, as soon as addresses can be reserved.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if there are none for the platform.
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

    /// Called before the page tables change the access to these addresses, all of which are mapped.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]; then a part may have changed.
    fn protect(&self, address: u64, size: u64, access: Access) -> Result<(), OutOfMemory> {
        let _ = (address, size, access);
        Ok(())
    }

    /// Whether mappings may be made other than those of growing stacks, for which the platform keeps a
    /// reserve.
    fn can_map_more(&self) -> bool {
        true
    }

    /// Way in which memory that the guest has freed returns to the host: the same one in all calls.
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

    /// Whether other CPUs have TLBs that must be flushed, for which [`Mmu::flush_tlb`] waits.
    fn has_other_tlbs(&self) -> bool {
        false
    }

    /// Flushes the TLBs of all CPUs. When it returns, no CPU uses a mapping that the page tables did not have
    /// when it was called.
    fn flush_tlb(&self, scope: FlushScope);
}
