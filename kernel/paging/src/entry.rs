//! An entry of a paging structure (SDM volume 3, tables 4-15 to 4-20).

use crate::{Access, MemoryType, PageAttributes};

/// P: the entry is valid. While it is clear, the processor ignores all other bits.
const PRESENT: u64 = 1;
/// R/W: writes are allowed.
const WRITABLE: u64 = 1 << 1;
/// PWT and PCD, which together select entry 3 of the PAT: uncacheable (UC) with the PAT's value at
/// reset (SDM volume 3, "Memory Cache Control").
const UNCACHEABLE: u64 = 1 << 3 | 1 << 4;
/// PS: the entry maps a page. Without it, the entry references a table. In a page-table entry (level 0), the
/// bit is PAT, and is clear.
const PAGE_SIZE_BIT: u64 = 1 << 7;
/// A bit that the processor ignores. It is set in entries of pages without access, so that the entry of such
/// a page at physical address 0 differs from an empty entry.
const NO_ACCESS: u64 = 1 << 9;
/// XD: instruction fetches are not allowed.
const EXECUTE_DISABLE: u64 = 1 << 63;
/// The physical address, bits 51:12.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// An entry as the processor reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    pub(crate) const EMPTY: Self = Self(0);

    /// The entry that references a table. It does not restrict access: only the entries of pages do.
    pub(crate) const fn of_table(address: u64) -> Self {
        Self(address | PRESENT | WRITABLE)
    }

    /// The entry that maps a page in a table of `level`.
    pub(crate) const fn of_page(physical: u64, level: u32, attributes: PageAttributes) -> Self {
        let page_size = if level == 0 { 0 } else { PAGE_SIZE_BIT };
        let memory_type = match attributes.memory_type {
            MemoryType::WriteBack => 0,
            MemoryType::Uncacheable => UNCACHEABLE,
        };
        Self(physical | page_size | memory_type | access_bits(attributes.access))
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Physical address of the table that this entry references; `None` if it does not reference a table. The
    /// entry is in a table of `level`.
    pub(crate) fn table(self, level: u32) -> Option<u64> {
        let is_table = level > 0 && self.0 & (PRESENT | PAGE_SIZE_BIT) == PRESENT;
        is_table.then_some(self.0 & ADDRESS)
    }

    /// The physical address of the page.
    pub(crate) const fn physical(self) -> u64 {
        self.0 & ADDRESS
    }

    /// The attributes of the page.
    pub(crate) const fn attributes(self) -> PageAttributes {
        let access = if self.0 & PRESENT == 0 {
            Access::None
        } else {
            match (self.0 & WRITABLE != 0, self.0 & EXECUTE_DISABLE == 0) {
                (false, false) => Access::Read,
                (true, false) => Access::Write,
                (false, true) => Access::Execute,
                (true, true) => Access::WriteExecute,
            }
        };
        let memory_type =
            if self.0 & UNCACHEABLE == 0 { MemoryType::WriteBack } else { MemoryType::Uncacheable };
        PageAttributes { access, memory_type }
    }

    /// The entry of the same page with another access.
    pub(crate) const fn with_access(self, access: Access) -> Self {
        Self(self.0 & !(PRESENT | WRITABLE | EXECUTE_DISABLE | NO_ACCESS) | access_bits(access))
    }

    /// The entry of a smaller page, which starts `offset` bytes into this page. It is for a table of `level`.
    pub(crate) const fn split(self, offset: u64, level: u32) -> Self {
        let page_size = if level == 0 { PAGE_SIZE_BIT } else { 0 };
        Self((self.0 & !page_size) + offset)
    }
}

const fn access_bits(access: Access) -> u64 {
    match access {
        Access::None => NO_ACCESS,
        Access::Read => PRESENT | EXECUTE_DISABLE,
        Access::Write => PRESENT | WRITABLE | EXECUTE_DISABLE,
        Access::Execute => PRESENT,
        Access::WriteExecute => PRESENT | WRITABLE,
    }
}
