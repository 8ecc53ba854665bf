//! Large blocks of the heap: physically contiguous pages from the frame allocator.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

use super::paging;

/// Size of the smallest large block in bytes.
pub(super) const MIN_SIZE: usize = 4 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

/// Rounds a size up to whole pages.
fn pages(size: usize) -> u64 {
    size.next_multiple_of(PAGE) as u64
}

/// Allocates a block.
pub(super) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    let (size, align) = (pages(layout.size()), layout.align() as u64);
    let start = paging::with(|memory| memory.allocate(size, align)).ok()?;
    NonNull::new(with_exposed_provenance_mut(to_usize(start)))
}

/// Frees a block.
///
/// # Safety
///
/// It must come from [`allocate`] with this size, and not be used again.
pub(super) unsafe fn deallocate(block: *mut u8, size: usize) {
    paging::with(|memory| memory.free(block.addr() as u64, pages(size)));
}

/// Changes the size of a block in place; `false` if the memory behind it is not free.
///
/// # Safety
///
/// It must come from [`allocate`] with the size `old`; bytes beyond the new size must not be used again.
pub(super) unsafe fn resize(block: *mut u8, old: usize, size: usize) -> bool {
    let start = block.addr() as u64;
    let (old, size) = (pages(old), pages(size));
    if size <= old {
        if size < old {
            paging::with(|memory| memory.free(start + size, old - size));
        }
        return true;
    }
    paging::with(|memory| memory.extend(start + old, size - old))
}
