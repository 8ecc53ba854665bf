//! One entry of a table.

use crate::{Access, Cache, Rights};

/// The entry leads somewhere. Clear, the processor ignores all the rest.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
/// The two cache bits that together mean "uncached" in the table of memory types that processors start with.
const UNCACHED: u64 = 1 << 3 | 1 << 4;
/// A page, where the entry could also be that of a table. In the lowest table the bit means something else, and is clear.
const LARGE: u64 = 1 << 7;
/// Ours: a page that may not be accessed. Without this bit one at physical address 0 would look empty.
const KEPT: u64 = 1 << 9;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// An entry, as the processor reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    pub(crate) const EMPTY: Self = Self(0);

    /// The entry of a table. It restricts nothing: rights are those of pages.
    pub(crate) const fn of_table(address: u64) -> Self {
        Self(address | PRESENT | WRITABLE)
    }

    /// The entry of a page in a table of a level.
    pub(crate) const fn of_page(physical: u64, level: u32, rights: Rights) -> Self {
        let large = if level == 0 { 0 } else { LARGE };
        let cache = match rights.cache {
            Cache::Normal => 0,
            Cache::Uncached => UNCACHED,
        };
        Self(physical | large | cache | access_bits(rights.access))
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Where the next table is, if this entry of a table of `level` leads to one.
    pub(crate) fn table(self, level: u32) -> Option<u64> {
        let is_table = level > 0 && self.0 & (PRESENT | LARGE) == PRESENT;
        is_table.then_some(self.0 & ADDRESS)
    }

    /// Where the page is.
    pub(crate) const fn physical(self) -> u64 {
        self.0 & ADDRESS
    }

    pub(crate) const fn rights(self) -> Rights {
        let access = if self.0 & PRESENT == 0 {
            Access::None
        } else {
            match (self.0 & WRITABLE != 0, self.0 & NO_EXECUTE == 0) {
                (false, false) => Access::Read,
                (true, false) => Access::Write,
                (false, true) => Access::Execute,
                (true, true) => Access::WriteExecute,
            }
        };
        let cache = if self.0 & UNCACHED == 0 { Cache::Normal } else { Cache::Uncached };
        Rights { access, cache }
    }

    /// The same page with another access.
    pub(crate) const fn with_access(self, access: Access) -> Self {
        Self(self.0 & !(PRESENT | WRITABLE | NO_EXECUTE | KEPT) | access_bits(access))
    }

    /// The page that starts `offset` bytes into this one, in the table of `level` below.
    pub(crate) const fn split(self, offset: u64, level: u32) -> Self {
        let large = if level == 0 { LARGE } else { 0 };
        Self((self.0 & !large) + offset)
    }
}

const fn access_bits(access: Access) -> u64 {
    match access {
        Access::None => KEPT,
        Access::Read => PRESENT | NO_EXECUTE,
        Access::Write => PRESENT | WRITABLE | NO_EXECUTE,
        Access::Execute => PRESENT,
        Access::WriteExecute => PRESENT | WRITABLE,
    }
}
