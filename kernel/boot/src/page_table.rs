//! Building page tables in physical memory that is not yet mapped.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_memory::ranges::FreeError;
use hermit_paging::{Access, PagingError, TableMemory};

use crate::load::LoadError;
use crate::{FreeMemory, PhysicalMemory};

/// A tree of page tables under construction.
#[derive(Debug)]
pub(crate) struct PageTable<'a, M> {
    tables: FreePages<'a, M>,
    tree: hermit_paging::PageTable,
}

impl<'a, M: PhysicalMemory> PageTable<'a, M> {
    pub(crate) fn new(memory: &'a mut M, free: &'a mut FreeMemory) -> Result<Self, LoadError> {
        let mut tables = FreePages { memory, free };
        let tree = hermit_paging::PageTable::new(&mut tables)?;
        Ok(Self { tables, tree })
    }

    /// The tree whose topmost table is at a physical address.
    pub(crate) fn at(memory: &'a mut M, free: &'a mut FreeMemory, root: u64) -> Self {
        Self { tables: FreePages { memory, free }, tree: hermit_paging::PageTable::at(root) }
    }

    /// The physical address of the topmost table.
    pub(crate) fn root(&self) -> u64 {
        self.tree.root()
    }

    /// Maps `size` bytes, which are whole pages.
    pub(crate) fn map(
        &mut self,
        address: u64,
        physical: u64,
        size: u64,
        access: Access,
    ) -> Result<(), LoadError> {
        Ok(self.tree.map(&mut self.tables, address, physical, size, access.into())?)
    }

    /// Maps the 2 MiB pages that `size` bytes touch.
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

impl<M: PhysicalMemory> PageTable<'_, M> {
    /// Maps a 2 MiB page of data, unless it is mapped already.
    pub(crate) fn map_large_once(&mut self, address: u64, physical: u64) -> Result<(), LoadError> {
        match self.tree.map(&mut self.tables, address, physical, LARGE_PAGE_SIZE, Access::Write.into()) {
            Ok(()) | Err(PagingError::AlreadyMapped) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<PagingError> for LoadError {
    fn from(error: PagingError) -> Self {
        match error {
            PagingError::OutOfMemory => Self::OutOfMemory,
            _ => Self::Addresses,
        }
    }
}

/// What a segment allows.
pub(crate) const fn access(write: bool, execute: bool) -> Access {
    match (write, execute) {
        (false, false) => Access::Read,
        (true, false) => Access::Write,
        (false, true) => Access::Execute,
        (true, true) => Access::WriteExecute,
    }
}

/// Free memory as pages for tables.
#[derive(Debug)]
struct FreePages<'a, M> {
    memory: &'a mut M,
    free: &'a mut FreeMemory,
}

impl<M: PhysicalMemory> TableMemory for FreePages<'_, M> {
    fn read(&self, slot: u64) -> u64 {
        self.memory.read_word(slot)
    }

    fn write(&mut self, slot: u64, entry: u64) {
        self.memory.write_word(slot, entry);
    }

    fn allocate(&mut self) -> Option<u64> {
        let table = self.free.allocate(PAGE_SIZE, PAGE_SIZE)?;
        self.memory.zero(table, PAGE_SIZE);
        Some(table)
    }

    fn free(&mut self, table: u64) {
        // Only after a failure, which ends everything; a table of pieces that is full loses the page.
        let _: Result<(), FreeError> = self.free.free(AddressRange { start: table, end: table + PAGE_SIZE });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::access;
    use crate::PhysicalMemory;
    use hermit_paging::Access;

    /// What the hardware would find for `address` (SDM volume 3, section 4.5).
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
