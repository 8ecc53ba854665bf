//! Maintenance of mappings.

use hermit_paging::{Access, FlushScope};

use crate::fallible::OutOfMemory;

/// Maintenance of mappings beside the page tables: TLBs, and the host's mappings where the page tables are only the
/// kernel's record. All calls but those of [`Mmu::init_mappings`] and [`Mmu::flush_tlb`] are made under the memory
/// lock.
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

    /// Whether mappings may be made other than those of growing stacks, for which the platform keeps a reserve.
    fn can_map_more(&self) -> bool {
        true
    }

    /// Whether other CPUs have TLBs that must be flushed, for which [`Mmu::flush_tlb`] waits.
    fn has_other_tlbs(&self) -> bool {
        false
    }

    /// Flushes the TLBs of all CPUs. When it returns, no CPU uses a mapping that the page tables did not have when it was
    /// called.
    fn flush_tlb(&self, scope: FlushScope);
}
