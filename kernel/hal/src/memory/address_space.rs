//! The kernel's address space: page tables, and the mappings that the platform keeps in addition
//! ([`crate::ops::Mmu`]).

use hermit_paging::{Access, MappedPage, PageAttributes, PageTable, PagingError, TableMemory, Translation};

use crate::fallible::OutOfMemory;
use crate::ops;

impl From<OutOfMemory> for PagingError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The kernel's address space. It has the methods of [`PageTable`], which also change the platform's
/// mappings.
#[derive(Debug)]
pub(super) struct AddressSpace(PageTable);

impl AddressSpace {
    /// The address space of the page tables whose root is at a physical address.
    pub(super) const fn at(root: u64) -> Self {
        Self(PageTable::at(root))
    }

    /// Physical address of the root of the page tables.
    pub(super) const fn root(&self) -> u64 {
        self.0.root()
    }

    /// See [`PageTable::translate`].
    pub(super) fn translate(&self, tables: &impl TableMemory, address: u64) -> Option<Translation> {
        self.0.translate(tables, address)
    }

    /// See [`PageTable::map`].
    pub(super) fn map(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        physical: u64,
        size: u64,
        attributes: impl Into<PageAttributes>,
    ) -> Result<(), PagingError> {
        let attributes = attributes.into();
        self.0.map(tables, address, physical, size, attributes)?;
        let mapped = ops::mmu().map(address, physical, size, attributes.access);
        if mapped.is_err() {
            // Undoes the mapping of whole pages, so no page has to be split.
            self.0.unmap(tables, address, size, &mut |_| ())?;
        }
        Ok(mapped?)
    }

    /// See [`PageTable::unmap`].
    pub(super) fn unmap(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        found: &mut impl FnMut(MappedPage),
    ) -> Result<(), PagingError> {
        // Splits large pages first. Then the change of the page tables needs no memory, so it cannot fail
        // after the platform's mappings have changed.
        self.0.split_boundaries(tables, address, size)?;
        ops::mmu().unmap(address, size)?;
        self.0.unmap(tables, address, size, found)
    }

    /// See [`PageTable::unmap_pages`].
    ///
    /// # Errors
    ///
    /// [`PagingError::NotMapped`] if a part is not mapped, and the errors of [`PageTable::unmap_pages`].
    /// After an error nothing has changed.
    pub(super) fn unmap_pages(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        found: &mut impl FnMut(MappedPage),
    ) -> Result<(), PagingError> {
        if !self.0.is_mapped(tables, address, size)? {
            return Err(PagingError::NotMapped);
        }
        // As in `unmap`.
        self.0.split_boundaries(tables, address, size)?;
        ops::mmu().unmap(address, size)?;
        self.0.unmap_pages(tables, address, size, found)
    }

    /// Frees the empty page tables of a range. Nothing may be mapped in the range, neither in the page tables
    /// nor by the platform.
    pub(super) fn free_empty_tables(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
    ) -> Result<(), PagingError> {
        self.0.unmap(tables, address, size, &mut |_| ())
    }

    /// See [`PageTable::protect`]. If the platform has no memory for the change, it may have changed a part
    /// of the range.
    pub(super) fn protect(
        &mut self,
        tables: &mut impl TableMemory,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<(), PagingError> {
        if !self.0.is_mapped(tables, address, size)? {
            return Err(PagingError::NotMapped);
        }
        // Splits large pages first. Then the change of the page tables needs no memory, so it cannot fail
        // after the platform's mappings have changed.
        self.0.split_boundaries(tables, address, size)?;
        ops::mmu().protect(address, size, access)?;
        self.0.protect(tables, address, size, access)
    }
}
