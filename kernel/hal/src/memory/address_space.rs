//! The page tables, and what the platform maps by besides them.

use hermit_paging::{Access, MappedPage, PageAttributes, PageTable, PagingError, TableMemory, Translation};

use super::OutOfMemory;
use crate::platform;

impl From<OutOfMemory> for PagingError {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The kernel's addresses. Methods are those of [`PageTable`]; what they change, they tell the platform.
#[derive(Debug)]
pub(super) struct AddressSpace(PageTable);

impl AddressSpace {
    /// The page tables whose topmost table is at a physical address.
    pub(super) const fn at(root: u64) -> Self {
        Self(PageTable::at(root))
    }

    /// The physical address of the topmost table.
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
        let mapped = platform::current().map(address, physical, size, attributes.access);
        if mapped.is_err() {
            // What was mapped just now is whole pages.
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
        // From here on the tables need no memory for it.
        self.0.split_boundaries(tables, address, size)?;
        platform::current().unmap(address, size)?;
        self.0.unmap(tables, address, size, found)
    }

    /// See [`PageTable::protect`]. If the platform has no memory for it, it may have changed a part of the range.
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
        // As above.
        self.0.split_boundaries(tables, address, size)?;
        platform::current().protect(address, size, access)?;
        self.0.protect(tables, address, size, access)
    }
}
