//! The four-level page tables of x86-64 (SDM volume 3, section 4.5), wherever they lie.
//!
//! A [`PageTable`] maps ranges with the largest pages that fit, splits large pages when a part of them changes, and
//! gives tables back that have become empty. How entries are read and written is the caller's matter ([`Tables`]), and
//! so is what the processor remembers of them:
//!
//! - Nothing need be invalidated after a successful [`PageTable::map`]: processors remember no absent entries (SDM volume
//!   3, 4.10.2.3).
//! - After [`PageTable::unmap`] and [`PageTable::protect`], and after a `map` that failed, the range must be invalidated
//!   before anything else uses the frames, the addresses, or the tables that were freed.
#![no_std]
#![forbid(unsafe_code)]

mod entry;
mod page_table;
mod table;

pub use page_table::PageTable;

/// The memory in which page tables lie.
pub trait Tables {
    /// The entry at a physical address.
    fn read(&self, slot: u64) -> u64;

    /// Replaces the entry at a physical address.
    fn write(&mut self, slot: u64, entry: u64);

    /// Takes a page for a table, all zero; returns its physical address.
    fn allocate(&mut self) -> Option<u64>;

    /// Gives a table back. Within one call of this crate nothing is allocated after the first table was given back.
    fn free(&mut self, table: u64);
}

/// What may be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing; but the memory stays known, and can be made accessible again.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Reading and executing.
    Execute,
    /// Everything. Only for a loader that runs in such memory for a moment.
    WriteExecute,
}

/// How memory is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// As RAM is.
    Normal,
    /// Not at all, each access in its order: for device registers.
    Uncached,
}

/// What may be done with memory, and how it is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// What may be done.
    pub access: Access,
    /// How it is cached.
    pub cache: Cache,
}

impl From<Access> for Rights {
    /// Rights to RAM.
    fn from(access: Access) -> Self {
        Self { access, cache: Cache::Normal }
    }
}

/// A page, and the memory behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Where the page is.
    pub address: u64,
    /// Where its memory is.
    pub physical: u64,
    /// The page's size in bytes.
    pub size: u64,
}

/// What an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The physical address.
    pub physical: u64,
    /// What may be done there.
    pub rights: Rights,
    /// The size in bytes of the page that the address is in.
    pub page_size: u64,
}

/// Why page tables cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// There is no memory for a table.
    #[error("there is no memory for a page table")]
    OutOfMemory,
    /// A part of the range is mapped already.
    #[error("a part of the addresses is mapped already")]
    Occupied,
    /// A part of the range is not mapped.
    #[error("a part of the addresses is not mapped")]
    NotMapped,
    /// An address or a size is not a multiple of [`PAGE_SIZE`].
    #[error("an address or a size is not whole pages")]
    Misaligned,
    /// The range is not all in the lower half of the addresses or all in the upper one (SDM volume 1, 3.3.7.1).
    #[error("addresses that do not exist")]
    NotCanonical,
    /// The range of physical memory does not end at 2⁵² or below.
    #[error("physical addresses that do not exist")]
    NotPhysical,
}

#[cfg(test)]
mod tests;
