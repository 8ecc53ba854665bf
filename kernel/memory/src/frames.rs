//! The frame allocator: free physical memory, with its metadata in the free memory itself.
//!
//! [`ExtentAllocator`] is a balanced tree of all free ranges (extents). The node of an extent lies in the
//! first words of the extent. So the tree can have any number of extents, and the time and memory to set it
//! up do not depend on the size of memory. [`FrameAllocator`] adds a cache of single pages.
//!
//! The caller implements access to words in free memory ([`Words`]). Any other write to free memory corrupts
//! the tree.

mod allocator;
mod extents;
mod node;
mod tree;

pub use allocator::FrameAllocator;
pub use extents::ExtentAllocator;

use hermit_interface::address::PAGE_SIZE;

/// Access to words in free physical memory.
///
/// Addresses are multiples of eight, near the start of an extent that is free or that the current call
/// allocates or frees. Written words must keep their values until the extent is allocated.
pub trait Words {
    /// Reads the word at a physical address.
    fn read(&self, address: u64) -> u64;

    /// Writes the word at a physical address.
    fn write(&mut self, address: u64, value: u64);
}

/// Error: a range cannot be freed, because a part of it is free already, or because it is not page-aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the freed range is not allocated")]
pub struct NotAllocated;

/// Returns true if a size or an address is a multiple of the page size.
const fn is_page_aligned(number: u64) -> bool {
    number.is_multiple_of(PAGE_SIZE)
}

#[cfg(test)]
mod tests;
