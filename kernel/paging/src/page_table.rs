//! Mapping, unmapping, protecting and translating ranges of addresses.

use hermit_interface::address::PAGE_SIZE;

use crate::entry::Entry;
use crate::table::{
    EntryPart, PagingStructure, TOP, TranslatedRange, canonical, entry_size, translated_bits,
};
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
    /// Its entries that reference tables must not restrict access, as those of this crate do not.
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
    /// [`PagingError::AlreadyMapped`], [`PagingError::OutOfMemory`], or an error that says why a range is invalid;
    /// then nothing is mapped and no table has been added.
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
        let mut job = MapRequest {
            start: span.start,
            physical,
            attributes,
            max_page_level: self.max_page_level,
            done: span.start,
        };
        let result = job.map(tables, self.top(), span);
        if result.is_err() {
            clear(
                tables,
                self.top(),
                TranslatedRange { end: job.done, ..span },
                EmptyTables::Freed,
                &mut |_| {},
            );
        }
        result
    }

    /// Unmaps the pages of the `size` bytes at `address`, some of which may not be mapped, and calls `found` with
    /// each page.
    ///
    /// A large page that is only partly in the range is split first. Tables that become empty are freed.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`] if a page cannot be split, or an error that says why the range is invalid; then all
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

    /// Unmaps as [`Self::unmap`] does, but tables that the range covers only partly stay, even if they become empty: they
    /// need no new memory when addresses beside the range are mapped again, and no CPU need flush what it has cached of
    /// them.
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
        clear(tables, self.top(), span, empty, found);
        Ok(())
    }

    /// Sets the access of the `size` bytes at `address`. Their memory type stays.
    ///
    /// # Errors
    ///
    /// [`PagingError::NotMapped`] if a part is not mapped, [`PagingError::OutOfMemory`] if a large page cannot be
    /// split, or an error that says why the range is invalid; then no access has changed.
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
        set_access(tables, self.top(), span, access);
        Ok(())
    }

    /// Translates an address; also one of a page without access.
    pub fn translate(&self, tables: &impl TableMemory, address: u64) -> Option<Translation> {
        let found = self.find(tables, translated_bits(address)?);
        let page_size = entry_size(found.level);
        (!found.entry.is_empty()).then(|| Translation {
            physical: found.entry.physical() + address % page_size,
            attributes: found.entry.attributes(),
            page_size,
        })
    }

    /// Calls `found` with each page of the lower half of the address space and its attributes, in ascending order.
    /// `read` reads the entry at a physical address.
    pub fn for_each_page(
        &self,
        read: &impl Fn(u64) -> u64,
        found: &mut impl FnMut(MappedPage, PageAttributes),
    ) {
        for_each_page(read, self.top(), TranslatedRange { start: 0, end: LOWER_HALF_END }, found);
    }

    const fn top(&self) -> PagingStructure {
        PagingStructure { address: self.root, level: TOP }
    }

    /// Walks the tree to the entry for an address that references no table.
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

    /// Whether all of the `size` bytes at `address` are mapped, with or without access.
    ///
    /// # Errors
    ///
    /// An error that says why the range is invalid.
    pub fn is_mapped(&self, tables: &impl TableMemory, address: u64, size: u64) -> Result<bool, PagingError> {
        Ok(is_mapped(tables, self.top(), TranslatedRange::new(address, size)?))
    }

    /// Splits the large pages that are only partly in the `size` bytes at `address`. Then [`Self::unmap`] and
    /// [`Self::protect`] of the range allocate no tables.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`], or an error that says why the range is invalid. Translations do not change in
    /// any case.
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
        // No page of this level or below straddles the start of an entry.
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

/// An entry that references no table, as found by a walk.
#[derive(Debug)]
struct Found {
    entry_address: u64,
    entry: Entry,
    level: u32,
}

/// A mapping in progress.
#[derive(Debug)]
struct MapRequest {
    start: u64,
    physical: u64,
    attributes: PageAttributes,
    /// As in [`PageTable`].
    max_page_level: u32,
    /// End of what has been mapped so far.
    done: u64,
}

impl MapRequest {
    /// Maps the part of the range that a table covers.
    fn map(
        &mut self,
        tables: &mut impl TableMemory,
        table: PagingStructure,
        span: TranslatedRange,
    ) -> Result<(), PagingError> {
        for part in table.parts(span) {
            let entry = Entry(tables.read(part.entry_address));
            if let Some(below) = table.below(entry) {
                self.map(tables, below, part.span)?;
            } else if !entry.is_empty() {
                return Err(PagingError::AlreadyMapped);
            } else if let Some(page) = self.page(table.level, part) {
                tables.write(part.entry_address, page.0);
            } else {
                self.map_in_new_table(tables, table.level - 1, part)?;
            }
            self.done = part.span.end;
        }
        Ok(())
    }

    /// The entry that maps all that the table entry covers to one page, if size and alignment allow that.
    fn page(&self, level: u32, part: EntryPart) -> Option<Entry> {
        let physical = self.physical + (part.span.start - self.start);
        let is_page =
            part.is_whole && level <= self.max_page_level && physical.is_multiple_of(entry_size(level));
        is_page.then(|| Entry::of_page(physical, level, self.attributes))
    }

    /// Maps a part whose table is missing: allocates the table.
    fn map_in_new_table(
        &mut self,
        tables: &mut impl TableMemory,
        level: u32,
        part: EntryPart,
    ) -> Result<(), PagingError> {
        let address = tables.allocate().ok_or(PagingError::OutOfMemory)?;
        tables.write(part.entry_address, Entry::of_table(address).0);
        let table = PagingStructure { address, level };
        let result = self.map(tables, table, part.span);
        // A table that is not empty is freed when `clear` undoes the mapping.
        if result.is_err() && table.is_empty(tables) {
            tables.write(part.entry_address, Entry::EMPTY.0);
            tables.free(address);
        }
        result
    }
}

/// What happens to tables that become empty and that a range covers only partly. Others are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyTables {
    Freed,
    Kept,
}

/// Clears the entries of a range that splits no page, and frees tables.
fn clear(
    tables: &mut impl TableMemory,
    table: PagingStructure,
    span: TranslatedRange,
    empty: EmptyTables,
    found: &mut impl FnMut(MappedPage),
) {
    for part in table.parts(span) {
        let entry = Entry(tables.read(part.entry_address));
        if let Some(below) = table.below(entry) {
            clear(tables, below, part.span, empty, found);
            if part.is_whole || empty == EmptyTables::Freed && below.is_empty(tables) {
                tables.write(part.entry_address, Entry::EMPTY.0);
                tables.free(below.address);
            }
        } else if !entry.is_empty() {
            tables.write(part.entry_address, Entry::EMPTY.0);
            found(MappedPage {
                address: canonical(part.span.start),
                physical: entry.physical(),
                size: entry_size(table.level),
            });
        }
    }
}

/// Calls `found` with each page of a range.
fn for_each_page(
    read: &impl Fn(u64) -> u64,
    table: PagingStructure,
    span: TranslatedRange,
    found: &mut impl FnMut(MappedPage, PageAttributes),
) {
    for part in table.parts(span) {
        let entry = Entry(read(part.entry_address));
        match table.below(entry) {
            Some(below) => for_each_page(read, below, part.span, found),
            None if entry.is_empty() => {}
            None => {
                let (physical, size) = (entry.physical(), entry_size(table.level));
                found(MappedPage { address: part.span.start, physical, size }, entry.attributes());
            }
        }
    }
}

/// Whether all of a range is mapped.
fn is_mapped(tables: &impl TableMemory, table: PagingStructure, span: TranslatedRange) -> bool {
    table.parts(span).all(|part| {
        let entry = Entry(tables.read(part.entry_address));
        match table.below(entry) {
            Some(below) => is_mapped(tables, below, part.span),
            None => !entry.is_empty(),
        }
    })
}

/// Sets the access of a range that is mapped and splits no page.
fn set_access(tables: &mut impl TableMemory, table: PagingStructure, span: TranslatedRange, access: Access) {
    for part in table.parts(span) {
        let entry = Entry(tables.read(part.entry_address));
        match table.below(entry) {
            Some(below) => set_access(tables, below, part.span, access),
            None => tables.write(part.entry_address, entry.with_access(access).0),
        }
    }
}

fn check_physical(physical: u64, size: u64) -> Result<(), PagingError> {
    if !physical.is_multiple_of(PAGE_SIZE) {
        return Err(PagingError::Misaligned);
    }
    let is_physical = physical.checked_add(size).is_some_and(|end| end <= PHYSICAL_END);
    if is_physical { Ok(()) } else { Err(PagingError::PhysicalOutOfRange) }
}
