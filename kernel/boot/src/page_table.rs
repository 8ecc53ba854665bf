//! Construction of page tables in free physical memory.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_memory::ranges::FreeError;
use hermit_paging::{Access, PagingError, TableMemory};

use crate::error::LoadError;
use crate::{FreeMemory, PhysicalMemory};

/// Page tables under construction.
#[derive(Debug)]
pub(crate) struct PageTableBuilder<'a, M> {
    tables: FreePages<'a, M>,
    tree: hermit_paging::PageTable,
}

impl<'a, M: PhysicalMemory> PageTableBuilder<'a, M> {
    pub(crate) fn new(memory: &'a mut M, free: &'a mut FreeMemory) -> Result<Self, LoadError> {
        let mut tables = FreePages { memory, free };
        let tree = hermit_paging::PageTable::new(&mut tables)?;
        Ok(Self { tables, tree })
    }

    /// The page tables whose PML4 table is at a physical address.
    pub(crate) fn at(memory: &'a mut M, free: &'a mut FreeMemory, root: u64) -> Self {
        Self { tables: FreePages { memory, free }, tree: hermit_paging::PageTable::at(root) }
    }

    /// Physical address of the PML4 table.
    pub(crate) fn root(&self) -> u64 {
        self.tree.root()
    }

    /// Maps `size` bytes, a multiple of the page size.
    pub(crate) fn map(
        &mut self,
        address: u64,
        physical: u64,
        size: u64,
        access: Access,
    ) -> Result<(), LoadError> {
        Ok(self.tree.map(&mut self.tables, address, physical, size, access.into())?)
    }

    /// Sets the access of `size` bytes that are mapped.
    pub(crate) fn protect(&mut self, address: u64, size: u64, access: Access) -> Result<(), LoadError> {
        Ok(self.tree.protect(&mut self.tables, address, size, access)?)
    }

    /// Maps `size` bytes, rounded up to large pages.
    pub(crate) fn map_large(
        &mut self,
        address: u64,
        physical: u64,
        size: u64,
        access: Access,
    ) -> Result<(), LoadError> {
        self.map(address, physical, size.next_multiple_of(LARGE_PAGE_SIZE), access)
    }
}

impl<M: PhysicalMemory> PageTableBuilder<'_, M> {
    /// Maps a writable large page, unless it is mapped already.
    pub(crate) fn map_large_if_unmapped(&mut self, address: u64, physical: u64) -> Result<(), LoadError> {
        match self.tree.map(&mut self.tables, address, physical, LARGE_PAGE_SIZE, Access::Write.into()) {
            Ok(()) | Err(PagingError::AlreadyMapped) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The access of a segment.
pub(crate) const fn access(write: bool, execute: bool) -> Access {
    match (write, execute) {
        (false, false) => Access::Read,
        (true, false) => Access::Write,
        (false, true) => Access::Execute,
        (true, true) => Access::WriteExecute,
    }
}

/// Free memory, from which pages for tables are allocated.
#[derive(Debug)]
struct FreePages<'a, M> {
    memory: &'a mut M,
    free: &'a mut FreeMemory,
}

impl<M: PhysicalMemory> TableMemory for FreePages<'_, M> {
    fn read(&self, address: u64) -> u64 {
        self.memory.read_word(address)
    }

    fn write(&mut self, address: u64, entry: u64) {
        self.memory.write_word(address, entry);
    }

    fn allocate(&mut self) -> Option<u64> {
        let table = self.free.allocate(PAGE_SIZE, PAGE_SIZE)?;
        self.memory.zero(table, PAGE_SIZE);
        Some(table)
    }

    fn free(&mut self, table: u64) {
        // Called only after an error, which ends the boot; a full table of free ranges drops the page.
        let _: Result<(), FreeError> = self.free.free(AddressRange { start: table, end: table + PAGE_SIZE });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::access;
    use crate::PhysicalMemory;
    use hermit_paging::Access;

    /// Walks the page tables as the processor does (SDM volume 3, section 4.5).
    pub(crate) fn translate(memory: &impl PhysicalMemory, root: u64, address: u64) -> Option<(u64, Access)> {
        let (mut table, mut write, mut execute) = (root, true, true);
        for shift in [39, 30, 21, 12] {
            let entry = memory.read_word(table + (address >> shift & 0x1ff) * 8);
            if entry & 1 == 0 {
                return None;
            }
            write &= entry & 2 != 0;
            execute &= entry >> 63 == 0;
            table = entry & 0x000f_ffff_ffff_f000;
            if shift == 12 || entry & 0x80 != 0 {
                return Some((table + address % (1 << shift), access(write, execute)));
            }
        }
        None
    }
}
