//! TLSF (two-level segregated fit, crate `rlsf`) as the shared heap. Allocating and freeing take a bounded
//! number of instructions in every case. TLSF never frees the pages that it has claimed.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use super::PageHeap;
use crate::memory::heap::pages;

/// Number of size classes of free blocks: powers of two of [`rlsf::GRANULARITY`], so that the largest is
/// beyond any memory.
const FIRST_LEVEL: usize = 32;

/// Number of parts of each size class. A free block that the search finds is larger than necessary by at most
/// one part.
const SECOND_LEVEL: usize = 16;

/// The allocator.
#[derive(Debug)]
pub(in crate::memory::heap) struct Tlsf {
    blocks: rlsf::Tlsf<'static, u32, u16, FIRST_LEVEL, SECOND_LEVEL>,
    /// Bytes of free blocks, headers included.
    available: usize,
}

/// Number of bytes that a block takes, including its header. With an alignment above that of all blocks, this
/// is the maximum.
fn taken(layout: Layout) -> usize {
    let padding = layout.align().saturating_sub(rlsf::GRANULARITY / 2);
    (layout.size() + padding + rlsf::GRANULARITY / 2).next_multiple_of(rlsf::GRANULARITY)
}

/// Number of bytes to claim for a block: the block, a part of its size class, and the end of the claimed
/// memory.
fn needed(layout: Layout) -> Option<usize> {
    let size = layout.size().checked_add(layout.align())?.checked_add(2 * rlsf::GRANULARITY)?;
    size.checked_add(size / SECOND_LEVEL + rlsf::GRANULARITY)
}

impl Tlsf {
    /// Claims pages in which there is room for a block.
    fn grow(&mut self, layout: Layout) -> Option<()> {
        let (start, size) = pages::claim(needed(layout)?)?;
        let start = NonNull::new(with_exposed_provenance_mut::<u8>(start))?;
        // SAFETY: the memory was free and is mapped and writable. It belongs to the allocator from now on,
        // for ever.
        let inserted =
            unsafe { self.blocks.insert_free_block_ptr(NonNull::slice_from_raw_parts(start, size)) }?;
        self.available += inserted.get();
        Some(())
    }
}

// SAFETY: the allocator allocates blocks of memory that `grow` has given to it, of the size and alignment of
// the layout, which do not overlap; its errors are values. Growing allocates from the frame allocator, not
// from the heap.
unsafe impl PageHeap for Tlsf {
    const NEW: Self = Self { blocks: rlsf::Tlsf::new(), available: 0 };

    unsafe fn try_allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.blocks.allocate(layout)?;
        self.available = self.available.saturating_sub(taken(layout));
        Some(block)
    }

    unsafe fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero (contract).
        if let Some(block) = unsafe { self.try_allocate(layout) } {
            return Some(block);
        }
        self.grow(layout)?;
        // SAFETY: the size is not zero (contract).
        unsafe { self.try_allocate(layout) }
    }

    unsafe fn deallocate(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: the block comes from this heap (contract), whose blocks are not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the block comes from this allocator with this alignment, and is not used again (contract).
        unsafe { self.blocks.deallocate(block, layout.align()) };
        self.available += taken(layout);
    }

    unsafe fn try_resize_in_place(&mut self, block: *mut u8, layout: Layout, size: usize) -> bool {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return false };
        if size > layout.size() {
            // rlsf may move a block that grows. Then it would copy the bytes under the lock, so a block never
            // grows in place.
            return false;
        }
        // SAFETY: the block comes from this heap (contract), whose blocks are not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the block comes from this allocator with this alignment (contract). One that shrinks stays
        // where it is.
        let is_resized = unsafe { self.blocks.reallocate(block, new) }.is_some();
        self.available += taken(layout) - taken(new);
        is_resized
    }

    fn available(&self) -> usize {
        self.available
    }
}
