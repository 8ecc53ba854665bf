//! One table of the tree, and the ranges of addresses that its entries stand for.

use crate::entry::Entry;
use hermit_interface::address::PAGE_SIZE;

use crate::{PagingError, Tables};

/// The level of the topmost tables; pages of 4 KiB are in tables of level 0.
pub(crate) const TOP: u32 = 3;

/// How many bits of an address are translated.
const BITS: u32 = 48;

const ENTRIES: u64 = 512;

/// A range of the lower 48 bits of addresses: what differs within one half of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// Whole pages, all in one half.
    pub(crate) fn new(address: u64, size: u64) -> Result<Self, PagingError> {
        if !address.is_multiple_of(PAGE_SIZE) || !size.is_multiple_of(PAGE_SIZE) {
            return Err(PagingError::Misaligned);
        }
        let last = address.checked_add(size.saturating_sub(1)).ok_or(PagingError::NotCanonical)?;
        let start = lower_bits(address).ok_or(PagingError::NotCanonical)?;
        let is_one_half = lower_bits(last).is_some() && address >> 63 == last >> 63;
        if is_one_half { Ok(Self { start, end: start + size }) } else { Err(PagingError::NotCanonical) }
    }
}

/// The bits of an address that are translated, if the other ones are as they must be.
pub(crate) fn lower_bits(address: u64) -> Option<u64> {
    let bits = address & ((1 << BITS) - 1);
    (whole_address(bits) == address).then_some(bits)
}

/// The address of which these are the lower 48 bits: the highest of them is repeated.
pub(crate) const fn whole_address(bits: u64) -> u64 {
    if bits >> (BITS - 1) == 0 { bits } else { bits | u64::MAX << BITS }
}

/// The size of what an entry in a table of `level` stands for.
pub(crate) const fn entry_size(level: u32) -> u64 {
    PAGE_SIZE << (9 * level)
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) address: u64,
    pub(crate) level: u32,
}

/// What one entry has to do with a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where the entry is.
    pub(crate) slot: u64,
    /// Which part of the range it stands for.
    pub(crate) span: Span,
    /// Whether that is all that the entry stands for.
    pub(crate) is_whole: bool,
}

impl Table {
    /// Where the entry for an address is.
    pub(crate) const fn slot(self, bits: u64) -> u64 {
        self.address + bits / entry_size(self.level) % ENTRIES * 8
    }

    /// The entries for a range, which this table must be there for.
    pub(crate) fn parts(self, span: Span) -> impl Iterator<Item = Part> {
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
            Some(Part { slot: self.slot(start), span: Span { start, end: next }, is_whole })
        })
    }

    /// The table that an entry of this one leads to.
    pub(crate) fn below(self, entry: Entry) -> Option<Self> {
        entry.table(self.level).map(|address| Self { address, level: self.level - 1 })
    }

    pub(crate) fn is_empty(self, tables: &impl Tables) -> bool {
        (0..ENTRIES).all(|index| tables.read(self.address + index * 8) == 0)
    }

    /// Replaces the page of an entry by a table of smaller pages, which it returns.
    pub(crate) fn split(self, tables: &mut impl Tables, slot: u64, page: Entry) -> Result<Self, PagingError> {
        let address = tables.allocate().ok_or(PagingError::OutOfMemory)?;
        let below = Self { address, level: self.level - 1 };
        for index in 0..ENTRIES {
            let part = page.split(index * entry_size(below.level), below.level);
            tables.write(address + index * 8, part.0);
        }
        tables.write(slot, Entry::of_table(address).0);
        Ok(below)
    }
}
