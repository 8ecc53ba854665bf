//! One paging structure, and the ranges of addresses that its entries cover.

use hermit_interface::address::PAGE_SIZE;

use crate::entry::Entry;
use crate::{PagingError, TableMemory};

/// Level of the PML4 table. Tables of level 2 are page-directory-pointer tables, of level 1 page directories,
/// of level 0 page tables.
pub(crate) const TOP: u32 = 3;

/// Number of address bits that are translated.
const BITS: u32 = 48;

/// Number of entries of a table.
const ENTRIES: u64 = 512;

/// A range of the translated bits (47:0) of addresses, within one half of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TranslatedRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl TranslatedRange {
    /// Checks that a range consists of whole pages, all in one half of the address space.
    pub(crate) fn new(address: u64, size: u64) -> Result<Self, PagingError> {
        if !address.is_multiple_of(PAGE_SIZE) || !size.is_multiple_of(PAGE_SIZE) {
            return Err(PagingError::Misaligned);
        }
        let last = address.checked_add(size.saturating_sub(1)).ok_or(PagingError::NotCanonical)?;
        let start = translated_bits(address).ok_or(PagingError::NotCanonical)?;
        let is_one_half = translated_bits(last).is_some() && address >> 63 == last >> 63;
        if is_one_half { Ok(Self { start, end: start + size }) } else { Err(PagingError::NotCanonical) }
    }
}

/// The translated bits of an address; `None` if the address is not canonical.
pub(crate) fn translated_bits(address: u64) -> Option<u64> {
    let bits = address & ((1 << BITS) - 1);
    (canonical(bits) == address).then_some(bits)
}

/// The canonical address with these translated bits: bits 63:48 are copies of bit 47.
pub(crate) const fn canonical(bits: u64) -> u64 {
    if bits >> (BITS - 1) == 0 { bits } else { bits | u64::MAX << BITS }
}

/// Size in bytes of the range that an entry of a table of `level` covers.
pub(crate) const fn entry_size(level: u32) -> u64 {
    PAGE_SIZE << (9 * level)
}

/// A paging structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagingStructure {
    pub(crate) address: u64,
    pub(crate) level: u32,
}

/// The part of a range that one entry covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPart {
    /// Physical address of the entry.
    pub(crate) entry_address: u64,
    /// The part of the range.
    pub(crate) span: TranslatedRange,
    /// True if the part is the whole range that the entry covers.
    pub(crate) is_whole: bool,
}

impl PagingStructure {
    /// Physical address of the entry for an address.
    pub(crate) const fn entry_address(self, bits: u64) -> u64 {
        self.address + bits / entry_size(self.level) % ENTRIES * 8
    }

    /// Splits a range by the entries of this table, which must cover it.
    pub(crate) fn parts(self, span: TranslatedRange) -> impl Iterator<Item = EntryPart> {
        let size = entry_size(self.level);
        let mut next = span.start;
        core::iter::from_fn(move || {
            if next >= span.end {
                return None;
            }
            let start = next;
            let entry = start & !(size - 1);
            next = span.end.min(entry + size);
            let is_whole = next - start == size;
            Some(EntryPart {
                entry_address: self.entry_address(start),
                span: TranslatedRange { start, end: next },
                is_whole,
            })
        })
    }

    /// The table that an entry of this one references.
    pub(crate) fn below(self, entry: Entry) -> Option<Self> {
        entry.table(self.level).map(|address| Self { address, level: self.level - 1 })
    }

    pub(crate) fn is_empty(self, tables: &impl TableMemory) -> bool {
        (0..ENTRIES).all(|index| tables.read(self.address + index * 8) == 0)
    }

    /// Splits the page that an entry maps: replaces it by a table of smaller pages, and returns the table.
    pub(crate) fn split(
        self,
        tables: &mut impl TableMemory,
        entry_address: u64,
        page: Entry,
    ) -> Result<Self, PagingError> {
        let address = tables.allocate().ok_or(PagingError::OutOfMemory)?;
        let below = Self { address, level: self.level - 1 };
        for index in 0..ENTRIES {
            let part = page.split(index * entry_size(below.level), below.level);
            tables.write(address + index * 8, part.0);
        }
        tables.write(entry_address, Entry::of_table(address).0);
        Ok(below)
    }
}
