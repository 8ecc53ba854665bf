//! Free physical memory, recorded in the free memory itself.
//!
//! [`ExtentAllocator`] is a balanced tree of all free ranges. A range's node lies in its own first words, so the record has
//! room for any number of ranges, nothing is ever lost to fragmentation, and neither time nor memory is spent in
//! advance on a machine that has much of it. [`FrameAllocator`] puts a small stack of single pages in front of the tree.
//!
//! How words in free memory are reached is the caller's matter: see [`Words`]. Whoever writes to memory that is free
//! destroys the record.

mod allocator;
mod extents;
mod node;
mod tree;

pub use allocator::FrameAllocator;
pub use extents::ExtentAllocator;

use hermit_interface::address::PAGE_SIZE;

/// Words in free physical memory.
///
/// Called only for addresses that are multiples of eight, at the start of a range that is free, that an ongoing call is
/// taking, or that it is freeing. Memory that was written must read as it was written until the range has been taken.
pub trait Words {
    /// The word at a physical address.
    fn read(&self, address: u64) -> u64;

    /// Replaces the word at a physical address.
    fn write(&mut self, address: u64, value: u64);
}

/// A range cannot be freed: a part of it is free already, or its ends are not those of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is freed was not allocated")]
pub struct NotAllocated;

/// Whether a number of bytes, or an address, is whole pages.
const fn is_whole_pages(number: u64) -> bool {
    number.is_multiple_of(PAGE_SIZE)
}

#[cfg(test)]
mod tests;
