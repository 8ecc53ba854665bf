//! The four-level page tables of x86-64 (SDM volume 3, section 4.5), in whatever memory they lie.
//!
//! A [`PageTable`] maps ranges with the largest pages that fit, splits large pages when a part of them
//! changes, and frees tables that become empty. The caller implements access to the memory of the tables
//! ([`TableMemory`]), and flushes TLBs. A [`Shootdown`] organises the flushes of several CPUs:
//!
//! - A successful [`PageTable::map`] needs no flush: processors do not cache entries that are not present
//!   (SDM volume 3, 4.10.2.3).
//! - After [`PageTable::unmap`] and [`PageTable::protect`], and after a `map` that failed, the caller flushes
//!   the TLB entries of the range before the frames, the addresses or the freed tables are used again.
//!
//! ```
//! use hermit_interface::address::{LARGE_PAGE_SIZE, PAGE_SIZE};
//! use hermit_paging::{Access, PageTable, TableMemory};
//!
//! /// Tables at physical address 0 and above.
//! #[derive(Default)]
//! struct Memory(Vec<u64>);
//!
//! impl TableMemory for Memory {
//!     fn read(&self, address: u64) -> u64 {
//!         self.0[address as usize / 8]
//!     }
//!     fn write(&mut self, address: u64, entry: u64) {
//!         self.0[address as usize / 8] = entry;
//!     }
//!     fn allocate(&mut self) -> Option<u64> {
//!         self.0.resize(self.0.len() + 512, 0);
//!         Some((self.0.len() as u64 - 512) * 8)
//!     }
//!     fn free(&mut self, _table: u64) {}
//! }
//!
//! let mut memory = Memory::default();
//! let mut table = PageTable::new(&mut memory)?;
//! table.map(&mut memory, 64 << 30, 4 << 30, LARGE_PAGE_SIZE, Access::Write.into())?;
//! let found = table.translate(&memory, (64 << 30) + 0x1234).unwrap();
//! assert_eq!((found.physical, found.page_size), ((4 << 30) + 0x1234, LARGE_PAGE_SIZE));
//! table.protect(&mut memory, 64 << 30, PAGE_SIZE, Access::Read)?;
//! assert_eq!(table.translate(&memory, 64 << 30).unwrap().page_size, PAGE_SIZE);
//! # Ok::<(), hermit_paging::PagingError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod entry;
mod page_table;
mod shootdown;
mod table;
mod walk;

pub use page_table::PageTable;
pub use shootdown::{FlushScope, Shootdown};

/// Access to the physical memory in which page tables lie.
pub trait TableMemory {
    /// Reads the entry at a physical address.
    fn read(&self, address: u64) -> u64;

    /// Writes the entry at a physical address.
    fn write(&mut self, address: u64, entry: u64);

    /// Allocates a zeroed page for a table. Returns its physical address.
    fn allocate(&mut self) -> Option<u64>;

    /// Frees a table. A function of this crate that has freed a table does not allocate any table afterwards.
    fn free(&mut self, table: u64);
}

/// Accesses that a page allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None. The page keeps its memory, and can be made accessible again.
    None,
    /// Reads.
    Read,
    /// Reads and writes.
    Write,
    /// Reads and instruction fetches.
    Execute,
    /// Reads, writes and instruction fetches. Only the loader uses this: it runs in such memory until it
    /// enters the kernel.
    WriteExecute,
}

/// Memory type of a page (SDM volume 3, "Memory Cache Control").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// Write-back (WB): RAM.
    WriteBack,
    /// Uncacheable (UC), accesses strictly ordered: device registers.
    Uncacheable,
}

/// Attributes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAttributes {
    /// Accesses that the page allows.
    pub access: Access,
    /// Memory type of the page.
    pub memory_type: MemoryType,
}

impl From<Access> for PageAttributes {
    /// Attributes of a page of RAM.
    fn from(access: Access) -> Self {
        Self { access, memory_type: MemoryType::WriteBack }
    }
}

/// A mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// Virtual address of the page.
    pub address: u64,
    /// Physical address of the page.
    pub physical: u64,
    /// Size of the page in bytes.
    pub size: u64,
}

/// Translation of a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The physical address.
    pub physical: u64,
    /// Attributes of the page.
    pub attributes: PageAttributes,
    /// Size of the page in bytes.
    pub page_size: u64,
}

/// Reason why a change of page tables failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// There is no memory for a table.
    #[error("there is no memory for a page table")]
    OutOfMemory,
    /// A part of the range is mapped already.
    #[error("a part of the addresses is mapped already")]
    AlreadyMapped,
    /// A part of the range is not mapped.
    #[error("a part of the addresses is not mapped")]
    NotMapped,
    /// An address or a size is not a multiple of [`PAGE_SIZE`](hermit_interface::address::PAGE_SIZE).
    #[error("an address or a size is not a multiple of the page size")]
    Misaligned,
    /// The range is not canonical: it is neither completely in the lower half nor completely in the upper
    /// half of the address space (SDM volume 1, 3.3.7.1).
    #[error("addresses are not canonical")]
    NotCanonical,
    /// The range of physical memory exceeds 2⁵².
    #[error("physical addresses exceed 52 bits")]
    PhysicalOutOfRange,
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
