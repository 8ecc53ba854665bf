//! Mapping, unmapping, protecting and translating ranges of addresses.
//!
//! A [`PageTable`] is a tree of paging structures in memory that the caller provides ([`TableMemory`]). A
//! failed change leaves all translations as they were. For this, unmapping and protecting first check the
//! range and split the large pages at its ends, which may need memory for tables; after that, they cannot
//! fail. A mapping that runs out of memory is undone. This module never flushes TLBs: see the documentation
//! of the crate for the flushes that the caller must do.

use hermit_interface::address::PAGE_SIZE;

use crate::entry::Entry;
use crate::table::{PagingStructure, TOP, TranslatedRange, entry_size, translated_bits};
use crate::walk::{self, EmptyTables, MapRequest};
use crate::{Access, MappedPage, PageAttributes, PagingError, TableMemory, Translation};

/// End of the physical addresses: MAXPHYADDR is at most 52.
const PHYSICAL_END: u64 = 1 << 52;

/// End of the lower half of the canonical addresses.
const LOWER_HALF_END: u64 = 1 << 47;

/// A tree of paging structures. Sizes are in bytes.
#[derive(Debug)]
pub struct PageTable {
    root: u64,
    /// Highest level of tables whose entries may map pages.
    max_page_level: u32,
}

impl PageTable {
    /// Creates a tree without mappings.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`].
    pub fn new(tables: &mut impl TableMemory) -> Result<Self, PagingError> {
        tables.allocate().map(Self::at).ok_or(PagingError::OutOfMemory)
    }

    /// Takes over the tree whose PML4 table is at a physical address.
    ///
    /// As in trees that this crate makes, entries that reference tables must not restrict access.
    #[must_use]
    pub const fn at(root: u64) -> Self {
        Self { root, max_page_level: 1 }
    }

    /// Enables pages of 1 GiB, for processors that have them (CPUID 8000_0001h, EDX bit 26).
    #[must_use]
    pub const fn with_huge_pages(self) -> Self {
        Self { max_page_level: 2, ..self }
    }

    /// Physical address of the PML4 table.
    #[must_use]
    pub const fn root(&self) -> u64 {
        self.root
    }

    /// Maps the `size` bytes at `address` to the memory at `physical`, with the largest pages that fit.
    ///
    /// # Errors
    ///
    /// [`PagingError::AlreadyMapped`], [`PagingError::OutOfMemory`], or an error of an invalid range. Then
    /// nothing is mapped and no table has been added.
    pub fn map(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        physical: u64,
        size: u64,
        attributes: PageAttributes,
    ) -> Result<(), PagingError> {
        let span = TranslatedRange::new(address, size)?;
        check_physical(physical, size)?;
        if size == PAGE_SIZE
            && let found = self.find(tables, span.start)
            && found.level == 0
            && found.entry.is_empty()
        {
            tables.write(found.entry_address, Entry::of_page(physical, 0, attributes).0);
            return Ok(());
        }
        let mut request = MapRequest::new(span.start, physical, attributes, self.max_page_level);
        let result = request.map(tables, self.top(), span);
        if result.is_err() {
            walk::clear(
                tables,
                self.top(),
                TranslatedRange { end: request.done, ..span },
                EmptyTables::Freed,
                &mut |_| {},
            );
        }
        result
    }

    /// Unmaps the pages of the `size` bytes at `address`, and calls `found` with each of these pages. A part
    /// of the range may be unmapped already.
    ///
    /// A large page that is only partly in the range is split first. Tables that become empty are freed.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`] if a page cannot be split, or an error of an invalid range. Then all
    /// translations are unchanged, though perhaps with smaller pages.
    pub fn unmap(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        found: &mut impl FnMut(MappedPage),
    ) -> Result<(), PagingError> {
        self.clear_range(tables, address, size, EmptyTables::Freed, found)
    }

    /// Unmaps as [`Self::unmap`] does, but keeps tables that the range covers only partly, even if they
    /// become empty. So mapping addresses next to the range needs no memory for tables, and other CPUs need
    /// not flush cached references to these tables.
    ///
    /// # Errors
    ///
    /// Those of [`Self::unmap`].
    pub fn unmap_pages(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        found: &mut impl FnMut(MappedPage),
    ) -> Result<(), PagingError> {
        self.clear_range(tables, address, size, EmptyTables::Kept, found)
    }

    fn clear_range(
        &self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        empty: EmptyTables,
        found: &mut impl FnMut(MappedPage),
    ) -> Result<(), PagingError> {
        self.split_boundaries(tables, address, size)?;
        let span = TranslatedRange::new(address, size)?;
        walk::clear(tables, self.top(), span, empty, found);
        Ok(())
    }

    /// Sets the access of the `size` bytes at `address`. Their memory type does not change.
    ///
    /// # Errors
    ///
    /// [`PagingError::NotMapped`] if a part is not mapped, [`PagingError::OutOfMemory`] if a large page
    /// cannot be split, or an error of an invalid range. Then no access has changed.
    pub fn protect(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<(), PagingError> {
        if !self.is_mapped(tables, address, size)? {
            return Err(PagingError::NotMapped);
        }
        self.split_boundaries(tables, address, size)?;
        let span = TranslatedRange::new(address, size)?;
        walk::set_access(tables, self.top(), span, access);
        Ok(())
    }

    /// Translates an address. Also translates addresses in pages without access.
    pub fn translate(&self, tables: &impl TableMemory, address: u64) -> Option<Translation> {
        let found = self.find(tables, translated_bits(address)?);
        let page_size = entry_size(found.level);
        (!found.entry.is_empty()).then(|| Translation {
            physical: found.entry.physical() + address % page_size,
            attributes: found.entry.attributes(),
            page_size,
        })
    }

    /// Calls `found` with each page of the lower half of the address space and its attributes, in ascending
    /// order. `read` reads the entry at a physical address.
    pub fn for_each_page(
        &self,
        read: &impl Fn(u64) -> u64,
        found: &mut impl FnMut(MappedPage, PageAttributes),
    ) {
        walk::for_each_page(read, self.top(), TranslatedRange { start: 0, end: LOWER_HALF_END }, found);
    }

    const fn top(&self) -> PagingStructure {
        PagingStructure { address: self.root, level: TOP }
    }

    /// Walks the tree down to the first entry for an address that does not reference a table.
    fn find(&self, tables: &impl TableMemory, bits: u64) -> Found {
        let mut table = self.top();
        loop {
            let entry_address = table.entry_address(bits);
            let entry = Entry(tables.read(entry_address));
            match table.below(entry) {
                Some(below) => table = below,
                None => return Found { entry_address, entry, level: table.level },
            }
        }
    }

    /// Returns true if all of the `size` bytes at `address` are mapped, with or without access.
    ///
    /// # Errors
    ///
    /// An error of an invalid range.
    pub fn is_mapped(&self, tables: &impl TableMemory, address: u64, size: u64) -> Result<bool, PagingError> {
        Ok(walk::is_mapped(tables, self.top(), TranslatedRange::new(address, size)?))
    }

    /// Splits the large pages that are only partly in the `size` bytes at `address`. Afterwards,
    /// [`Self::unmap`] and [`Self::protect`] of the range need no memory for tables.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`], or an error of an invalid range. Translations do not change in any case.
    pub fn split_boundaries(
        &self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
    ) -> Result<(), PagingError> {
        let span = TranslatedRange::new(address, size)?;
        self.split_at(tables, span.start)?;
        self.split_at(tables, span.end)
    }

    fn split_at(&self, tables: &mut impl TableMemory, bits: u64) -> Result<(), PagingError> {
        let mut table = self.top();
        // If the address is a multiple of the entry size, no page of this level or below extends across it.
        while !bits.is_multiple_of(entry_size(table.level)) {
            let entry_address = table.entry_address(bits);
            let entry = Entry(tables.read(entry_address));
            table = match table.below(entry) {
                Some(below) => below,
                None if entry.is_empty() => return Ok(()),
                None => table.split(tables, entry_address, entry)?,
            };
        }
        Ok(())
    }
}

/// An entry that does not reference a table, as found by a walk.
#[derive(Debug)]
struct Found {
    entry_address: u64,
    entry: Entry,
    level: u32,
}

fn check_physical(physical: u64, size: u64) -> Result<(), PagingError> {
    if !physical.is_multiple_of(PAGE_SIZE) {
        return Err(PagingError::Misaligned);
    }
    let is_physical = physical.checked_add(size).is_some_and(|end| end <= PHYSICAL_END);
    if is_physical { Ok(()) } else { Err(PagingError::PhysicalOutOfRange) }
}
