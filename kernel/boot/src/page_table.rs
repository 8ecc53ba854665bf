//! Building page tables in physical memory that is not yet mapped (SDM volume 3, section 4.5).

use hermit_interface::to_usize;

use crate::load::LoadError;
use crate::{FreeMemory, PhysicalMemory};

const SIZE: u64 = 4096;
const LARGE_SIZE: u64 = 2 << 20;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What may be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

impl Rights {
    fn bits(self) -> u64 {
        let write = if self.write { WRITABLE } else { 0 };
        let execute = if self.execute { 0 } else { NO_EXECUTE };
        PRESENT | write | execute
    }
}

/// A tree of page tables under construction.
#[derive(Debug)]
pub(crate) struct PageTable<'a, M> {
    pub(crate) memory: &'a mut M,
    pub(crate) free: &'a mut FreeMemory,
    pub(crate) root: u64,
}

impl<'a, M: PhysicalMemory> PageTable<'a, M> {
    pub(crate) fn new(memory: &'a mut M, free: &'a mut FreeMemory) -> Result<Self, LoadError> {
        let mut table = Self { memory, free, root: 0 };
        table.root = table.new_table()?;
        Ok(table)
    }

    /// Maps the pages of `size` bytes.
    pub(crate) fn map(
        &mut self,
        address: u64,
        physical: u64,
        size: u64,
        rights: Rights,
    ) -> Result<(), LoadError> {
        self.map_pages((address, physical), size, SIZE, rights.bits())
    }

    /// Maps the 2 MiB pages that `size` bytes touch.
    pub(crate) fn map_large(
        &mut self,
        address: u64,
        physical: u64,
        size: u64,
        rights: Rights,
    ) -> Result<(), LoadError> {
        self.map_pages((address, physical), size, LARGE_SIZE, rights.bits() | LARGE)
    }

    /// Maps pages of one size, from an address and a physical address on.
    fn map_pages(&mut self, from: (u64, u64), size: u64, page: u64, bits: u64) -> Result<(), LoadError> {
        let depth = if page == SIZE { 3 } else { 2 };
        for offset in (0..size).step_by(to_usize(page)) {
            let slot = self.slot(from.0 + offset, depth)?;
            self.memory.write_word(slot, (from.1 + offset) | bits);
        }
        Ok(())
    }

    /// Physical address of the entry for `address` after `depth` tables, which are made if they are missing.
    fn slot(&mut self, address: u64, depth: u32) -> Result<u64, LoadError> {
        let mut table = self.root;
        for level in 0..depth {
            let slot = table + index(address, level);
            let entry = self.memory.read_word(slot);
            table = if entry & PRESENT == 0 {
                let new = self.new_table()?;
                self.memory.write_word(slot, new | PRESENT | WRITABLE);
                new
            } else {
                entry & ADDRESS
            };
        }
        Ok(table + index(address, depth))
    }

    fn new_table(&mut self) -> Result<u64, LoadError> {
        let table = self.free.allocate(SIZE, SIZE).ok_or(LoadError::OutOfMemory)?;
        self.memory.zero(table, SIZE);
        Ok(table)
    }
}

/// Offset of the entry for `address` in a table, the top one being at level 0.
const fn index(address: u64, level: u32) -> u64 {
    (address >> (39 - 9 * level) & 0x1ff) * 8
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ADDRESS, LARGE, NO_EXECUTE, PRESENT, Rights, WRITABLE, index};
    use crate::PhysicalMemory;

    /// What the hardware would find for `address`.
    pub(crate) fn translate(memory: &impl PhysicalMemory, root: u64, address: u64) -> Option<(u64, Rights)> {
        let (mut table, mut write) = (root, true);
        for level in 0..4 {
            let entry = memory.read_word(table + index(address, level));
            if entry & PRESENT == 0 {
                return None;
            }
            write &= entry & WRITABLE != 0;
            table = entry & ADDRESS;
            if level == 3 || entry & LARGE != 0 {
                let size = 4096_u64 << (9 * (3 - level));
                let rights = Rights { write, execute: entry & NO_EXECUTE == 0 };
                return Some((table + address % size, rights));
            }
        }
        None
    }
}
