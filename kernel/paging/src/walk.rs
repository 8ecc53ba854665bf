//! Walks of a tree of paging structures, from a table downwards.

use crate::entry::Entry;
use crate::table::{EntryPart, PagingStructure, TranslatedRange, canonical, entry_size};
use crate::{Access, MappedPage, PageAttributes, PagingError, TableMemory};

/// A mapping in progress.
#[derive(Debug)]
pub(crate) struct MapRequest {
    start: u64,
    physical: u64,
    attributes: PageAttributes,
    /// Highest level of tables whose entries may map pages.
    max_page_level: u32,
    /// End of the part that is already mapped.
    pub(crate) done: u64,
}

impl MapRequest {
    /// Creates the request to map addresses from `start` on to the memory at `physical`.
    pub(crate) const fn new(
        start: u64,
        physical: u64,
        attributes: PageAttributes,
        max_page_level: u32,
    ) -> Self {
        Self { start, physical, attributes, max_page_level, done: start }
    }

    /// Maps the part of the range that a table covers.
    pub(crate) fn map(
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

    /// The entry that maps a part as one page, if size and alignment permit that.
    fn page(&self, level: u32, part: EntryPart) -> Option<Entry> {
        let physical = self.physical + (part.span.start - self.start);
        let is_page =
            part.is_whole && level <= self.max_page_level && physical.is_multiple_of(entry_size(level));
        is_page.then(|| Entry::of_page(physical, level, self.attributes))
    }

    /// Maps a part that has no table yet: allocates the table.
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
        // Frees the table if it is still empty. Otherwise `clear` frees it when the caller undoes the
        // mapping.
        if result.is_err() && table.is_empty(tables) {
            tables.write(part.entry_address, Entry::EMPTY.0);
            tables.free(address);
        }
        result
    }
}

/// Treatment of tables that become empty although a range covers only a part of them. Tables that the range
/// covers completely are always freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyTables {
    Freed,
    Kept,
}

/// Clears the entries of a range, and frees tables. No page is only partly in the range.
pub(crate) fn clear(
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
pub(crate) fn for_each_page(
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

/// Returns true if all of a range is mapped.
pub(crate) fn is_mapped(tables: &impl TableMemory, table: PagingStructure, span: TranslatedRange) -> bool {
    table.parts(span).all(|part| {
        let entry = Entry(tables.read(part.entry_address));
        match table.below(entry) {
            Some(below) => is_mapped(tables, below, part.span),
            None => !entry.is_empty(),
        }
    })
}

/// Sets the access of a mapped range. No page is only partly in the range.
pub(crate) fn set_access(
    tables: &mut impl TableMemory,
    table: PagingStructure,
    span: TranslatedRange,
    access: Access,
) {
    for part in table.parts(span) {
        let entry = Entry(tables.read(part.entry_address));
        match table.below(entry) {
            Some(below) => set_access(tables, below, part.span, access),
            None => tables.write(part.entry_address, entry.with_access(access).0),
        }
    }
}
