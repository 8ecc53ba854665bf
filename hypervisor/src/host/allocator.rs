//! Memory allocator of the command `uhyve`. It behaves the same with each C library.
#![expect(unsafe_code, reason = "the trait of allocators is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use dlmalloc::GlobalDlmalloc;

/// Minimum size in bytes of a block that the C library allocates. The C library maps such a block from the
/// host, so its pages are zero and take memory only when they are used, and unmaps it when it is freed.
const MIN_LARGE: usize = 128 << 10;

/// Allocator whose small blocks come from dlmalloc. At the start of uhyve, dlmalloc causes few system calls
/// and page faults, because it has one mapping for all sizes and threads. (The threads rarely allocate, so
/// they do not contend for it.) musl's allocator makes a mapping for every few sizes, and glibc's makes one
/// for each thread.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

/// Returns true if the C library allocates blocks of this size.
const fn is_large(size: usize) -> bool {
    size >= MIN_LARGE
}

// SAFETY: the size of a block determines its allocator, and all operations on the block go to this allocator:
// a block is freed or changed with the layout with which it was allocated (contract of the trait). Both
// allocators fulfil the trait's contract, and neither unwinds.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size()) {
            // SAFETY: the layout's size is not zero (contract).
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: the layout's size is not zero (contract).
        unsafe { GlobalDlmalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size()) {
            // SAFETY: the layout's size is not zero (contract).
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the layout's size is not zero (contract).
        unsafe { GlobalDlmalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout.size()) {
            // SAFETY: the block was allocated with this layout (contract), whose size is that of blocks of
            // the C library.
            return unsafe { System.dealloc(block, layout) };
        }
        // SAFETY: the block was allocated with this layout (contract), whose size is that of blocks of
        // dlmalloc.
        unsafe { GlobalDlmalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (is_large(layout.size()), is_large(size)) {
            // SAFETY: the block is one of the C library, with this layout; the new size is valid with its
            // alignment and not zero (contract).
            (true, true) => unsafe { System.realloc(block, layout, size) },
            // SAFETY: the block is one of dlmalloc, with this layout; the new size is as above.
            (false, false) => unsafe { GlobalDlmalloc.realloc(block, layout, size) },
            // SAFETY: `move_block` has the same contract as this function.
            _ => unsafe { self.move_block(block, layout, size) },
        }
    }
}

impl Allocator {
    /// Moves a block to the other allocator.
    ///
    /// # Safety
    ///
    /// See [`GlobalAlloc::realloc`].
    unsafe fn move_block(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: with this alignment the size does not overflow when it is rounded up (contract).
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not zero (contract).
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: both blocks have at least as many bytes, and the new one overlaps no block in use.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: the block was allocated with this layout, and is not used again (contract).
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocator, MIN_LARGE};
    use std::alloc::{GlobalAlloc, Layout};
    use std::slice;

    #[test]
    fn block_keeps_its_bytes_whichever_allocator_it_moves_to() {
        const SIZES: [usize; 7] = [100, 200, MIN_LARGE, 2 * MIN_LARGE, MIN_LARGE, MIN_LARGE - 1, 100];
        let layout = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: the size is not zero.
        let mut block = unsafe { Allocator.alloc_zeroed(layout(SIZES[0])) };
        for sizes in SIZES.windows(2) {
            // SAFETY: the block has as many bytes. They are all initialised, and no other reference exists.
            let bytes = unsafe { slice::from_raw_parts_mut(block, sizes[0].min(sizes[1])) };
            let last = bytes.len() - 1;
            (bytes[0], bytes[last]) = (1, 2);
            // SAFETY: the block has the layout, and is not used again; the new size is not zero.
            block = unsafe { Allocator.realloc(block, layout(sizes[0]), sizes[1]) };
            assert!(block.addr().is_multiple_of(64));
            // SAFETY: the block has more bytes than `last`, which were copied, and no other reference exists.
            let bytes = unsafe { slice::from_raw_parts(block, last + 1) };
            assert_eq!([bytes[0], bytes[last]], [1, 2], "{sizes:?}");
        }
        // SAFETY: the block has the layout, and is not used again.
        unsafe { Allocator.dealloc(block, layout(SIZES[6])) };
    }

    #[test]
    fn large_block_is_zeroed() {
        let layout = Layout::from_size_align(MIN_LARGE * 2, 1).unwrap();
        // SAFETY: the size is not zero.
        let block = unsafe { Allocator.alloc_zeroed(layout) };
        // SAFETY: the block has as many bytes, and no other reference exists.
        assert!(unsafe { slice::from_raw_parts(block, layout.size()) }.iter().all(|byte| *byte == 0));
        // SAFETY: the block has the layout, and is not used again.
        unsafe { Allocator.dealloc(block, layout) };
    }
}
