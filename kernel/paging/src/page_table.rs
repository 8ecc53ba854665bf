//! Changing ranges of addresses.

use crate::entry::Entry;
use crate::table::{Part, Span, TOP, Table, entry_size, lower_bits, whole_address};
use hermit_interface::address::PAGE_SIZE;

use crate::{Access, Mapped, PagingError, Rights, Tables, Translation};

/// Physical addresses have at most 52 bits.
const PHYSICAL_END: u64 = 1 << 52;

/// The end of the lower half of the addresses.
const HALF: u64 = 1 << 47;

/// A tree of page tables. Addresses and sizes are in bytes.
#[derive(Debug)]
pub struct PageTable {
    root: u64,
    /// The highest level of tables that may have pages in them.
    largest: u32,
}

impl PageTable {
    /// A tree in which nothing is mapped.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`].
    pub fn new(tables: &mut impl Tables) -> Result<Self, PagingError> {
        tables.allocate().map(Self::at).ok_or(PagingError::OutOfMemory)
    }

    /// The tree whose topmost table is at a physical address.
    ///
    /// Entries of tables in it must restrict no rights, as is so if this crate made them.
    #[must_use]
    pub const fn at(root: u64) -> Self {
        Self { root, largest: 1 }
    }

    /// Allows pages of 1 GiB, for processors that have them (CPUID 8000_0001h, EDX bit 26).
    #[must_use]
    pub const fn with_huge_pages(self) -> Self {
        Self { largest: 2, ..self }
    }

    /// The physical address of the topmost table.
    #[must_use]
    pub const fn root(&self) -> u64 {
        self.root
    }

    /// Maps `size` bytes from `address` on to the memory from `physical` on, with the largest pages that fit.
    ///
    /// # Errors
    ///
    /// [`PagingError::Occupied`], [`PagingError::OutOfMemory`], or that the ranges are not valid; then nothing is mapped
    /// and no table has been added.
    pub fn map(
        &mut self,
        tables: &mut impl Tables,
        address: u64,
        physical: u64,
        size: u64,
        rights: Rights,
    ) -> Result<(), PagingError> {
        let span = Span::new(address, size)?;
        check_physical(physical, size)?;
        if size == PAGE_SIZE
            && let found = self.find(tables, span.start)
            && found.level == 0
            && found.entry.is_empty()
        {
            tables.write(found.slot, Entry::of_page(physical, 0, rights).0);
            return Ok(());
        }
        let mut job =
            Mapping { start: span.start, physical, rights, largest: self.largest, done: span.start };
        let result = job.map(tables, self.top(), span);
        if result.is_err() {
            clear(tables, self.top(), Span { end: job.done, ..span }, &mut |_| {});
        }
        result
    }

    /// Unmaps what is mapped of `size` bytes from `address` on, and calls `found` with each page of it.
    ///
    /// A large page that is only partly in the range is split first. Tables that become empty are freed.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`] if a page cannot be split, or that the range is not valid; then all addresses lead
    /// where they led, though perhaps through smaller pages.
    pub fn unmap(
        &mut self,
        tables: &mut impl Tables,
        address: u64,
        size: u64,
        found: &mut impl FnMut(Mapped),
    ) -> Result<(), PagingError> {
        self.split_at_ends(tables, address, size)?;
        let span = Span::new(address, size)?;
        clear(tables, self.top(), span, found);
        Ok(())
    }

    /// Changes what may be done with `size` bytes from `address` on; how they are cached stays.
    ///
    /// # Errors
    ///
    /// [`PagingError::NotMapped`] if a part is not mapped, [`PagingError::OutOfMemory`] if a large page cannot be split,
    /// or that the range is not valid; then all rights are what they were.
    pub fn protect(
        &mut self,
        tables: &mut impl Tables,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<(), PagingError> {
        if !self.is_mapped(tables, address, size)? {
            return Err(PagingError::NotMapped);
        }
        self.split_at_ends(tables, address, size)?;
        let span = Span::new(address, size)?;
        set_access(tables, self.top(), span, access);
        Ok(())
    }

    /// What an address leads to; also if it may not be accessed.
    pub fn translate(&self, tables: &impl Tables, address: u64) -> Option<Translation> {
        let found = self.find(tables, lower_bits(address)?);
        let page_size = entry_size(found.level);
        (!found.entry.is_empty()).then(|| Translation {
            physical: found.entry.physical() + address % page_size,
            rights: found.entry.rights(),
            page_size,
        })
    }

    /// Calls `found` with each page of the lower half of the addresses and what may be done with it, in ascending order.
    /// `read` gives the entry at a physical address.
    pub fn each_page(&self, read: &impl Fn(u64) -> u64, found: &mut impl FnMut(Mapped, Rights)) {
        each_page(read, self.top(), Span { start: 0, end: HALF }, found);
    }

    const fn top(&self) -> Table {
        Table { address: self.root, level: TOP }
    }

    /// The entry at which the way to an address ends.
    fn find(&self, tables: &impl Tables, bits: u64) -> Found {
        let mut table = self.top();
        loop {
            let slot = table.slot(bits);
            let entry = Entry(tables.read(slot));
            match table.below(entry) {
                Some(below) => table = below,
                None => return Found { slot, entry, level: table.level },
            }
        }
    }

    /// Whether all of `size` bytes from `address` on is mapped, accessible or not.
    ///
    /// # Errors
    ///
    /// The range is not valid.
    pub fn is_mapped(&self, tables: &impl Tables, address: u64, size: u64) -> Result<bool, PagingError> {
        Ok(is_mapped(tables, self.top(), Span::new(address, size)?))
    }

    /// Makes sure that no page is partly in `size` bytes from `address` on. Then [`Self::unmap`] and [`Self::protect`] of them
    /// need no memory.
    ///
    /// # Errors
    ///
    /// [`PagingError::OutOfMemory`], or that the range is not valid; all addresses lead where they led.
    pub fn split_at_ends(
        &self,
        tables: &mut impl Tables,
        address: u64,
        size: u64,
    ) -> Result<(), PagingError> {
        let span = Span::new(address, size)?;
        self.split_at(tables, span.start)?;
        self.split_at(tables, span.end)
    }

    fn split_at(&self, tables: &mut impl Tables, bits: u64) -> Result<(), PagingError> {
        let mut table = self.top();
        // Where an entry begins, no page of this level or below can straddle.
        while !bits.is_multiple_of(entry_size(table.level)) {
            let slot = table.slot(bits);
            let entry = Entry(tables.read(slot));
            table = match table.below(entry) {
                Some(below) => below,
                None if entry.is_empty() => return Ok(()),
                None => table.split(tables, slot, entry)?,
            };
        }
        Ok(())
    }
}

/// An entry that leads to no table.
#[derive(Debug)]
struct Found {
    slot: u64,
    entry: Entry,
    level: u32,
}

/// A range that is being mapped.
#[derive(Debug)]
struct Mapping {
    start: u64,
    physical: u64,
    rights: Rights,
    /// The highest level of tables that may have pages in them.
    largest: u32,
    /// Up to where it is mapped.
    done: u64,
}

impl Mapping {
    /// Maps what of the range is in a table.
    fn map(&mut self, tables: &mut impl Tables, table: Table, span: Span) -> Result<(), PagingError> {
        for part in table.parts(span) {
            let entry = Entry(tables.read(part.slot));
            if let Some(below) = table.below(entry) {
                self.map(tables, below, part.span)?;
            } else if !entry.is_empty() {
                return Err(PagingError::Occupied);
            } else if let Some(page) = self.page(table.level, part) {
                tables.write(part.slot, page.0);
            } else {
                self.map_in_new(tables, table.level - 1, part)?;
            }
            self.done = part.span.end;
        }
        Ok(())
    }

    /// The page that fills an entry, if one does.
    fn page(&self, level: u32, part: Part) -> Option<Entry> {
        let physical = self.physical + (part.span.start - self.start);
        let is_page = part.is_whole && level <= self.largest && physical.is_multiple_of(entry_size(level));
        is_page.then(|| Entry::of_page(physical, level, self.rights))
    }

    /// Maps a part in a table that is missing.
    fn map_in_new(&mut self, tables: &mut impl Tables, level: u32, part: Part) -> Result<(), PagingError> {
        let address = tables.allocate().ok_or(PagingError::OutOfMemory)?;
        tables.write(part.slot, Entry::of_table(address).0);
        let table = Table { address, level };
        let result = self.map(tables, table, part.span);
        // What is not empty is freed together with what has been mapped.
        if result.is_err() && table.is_empty(tables) {
            tables.write(part.slot, Entry::EMPTY.0);
            tables.free(address);
        }
        result
    }
}

/// Empties the entries for a range at whose ends pages end.
fn clear(tables: &mut impl Tables, table: Table, span: Span, found: &mut impl FnMut(Mapped)) {
    for part in table.parts(span) {
        let entry = Entry(tables.read(part.slot));
        if let Some(below) = table.below(entry) {
            clear(tables, below, part.span, found);
            if part.is_whole || below.is_empty(tables) {
                tables.write(part.slot, Entry::EMPTY.0);
                tables.free(below.address);
            }
        } else if !entry.is_empty() {
            tables.write(part.slot, Entry::EMPTY.0);
            found(Mapped {
                address: whole_address(part.span.start),
                physical: entry.physical(),
                size: entry_size(table.level),
            });
        }
    }
}

/// Calls `found` with each page of a range that entries fill.
fn each_page(read: &impl Fn(u64) -> u64, table: Table, span: Span, found: &mut impl FnMut(Mapped, Rights)) {
    for part in table.parts(span) {
        let entry = Entry(read(part.slot));
        match table.below(entry) {
            Some(below) => each_page(read, below, part.span, found),
            None if entry.is_empty() => {}
            None => {
                let (physical, size) = (entry.physical(), entry_size(table.level));
                found(Mapped { address: part.span.start, physical, size }, entry.rights());
            }
        }
    }
}

/// Whether all of a range is mapped.
fn is_mapped(tables: &impl Tables, table: Table, span: Span) -> bool {
    table.parts(span).all(|part| {
        let entry = Entry(tables.read(part.slot));
        match table.below(entry) {
            Some(below) => is_mapped(tables, below, part.span),
            None => !entry.is_empty(),
        }
    })
}

/// Changes the entries for a range that is mapped and at whose ends pages end.
fn set_access(tables: &mut impl Tables, table: Table, span: Span, access: Access) {
    for part in table.parts(span) {
        let entry = Entry(tables.read(part.slot));
        match table.below(entry) {
            Some(below) => set_access(tables, below, part.span, access),
            None => tables.write(part.slot, entry.with_access(access).0),
        }
    }
}

fn check_physical(physical: u64, size: u64) -> Result<(), PagingError> {
    if !physical.is_multiple_of(PAGE_SIZE) {
        return Err(PagingError::Misaligned);
    }
    let is_physical = physical.checked_add(size).is_some_and(|end| end <= PHYSICAL_END);
    if is_physical { Ok(()) } else { Err(PagingError::NotPhysical) }
}
