//! Large blocks of the heap: whole pages, in one piece, straight from physical memory.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

use super::paging;

/// The smallest large block.
pub(super) const LEAST: usize = 4 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

/// The size in whole pages.
fn pages(size: usize) -> u64 {
    size.next_multiple_of(PAGE) as u64
}

/// Takes a block.
pub(super) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    let (size, align) = (pages(layout.size()), layout.align() as u64);
    let start = paging::with(|memory| memory.allocate(size, align)).ok()?;
    NonNull::new(with_exposed_provenance_mut(to_usize(start)))
}

/// Gives a block back.
///
/// # Safety
///
/// It must come from [`allocate`] with this size, and not be used again.
pub(super) unsafe fn deallocate(block: *mut u8, size: usize) {
    paging::with(|memory| memory.free(block.addr() as u64, pages(size)));
}

/// Changes the size of a block where it is; `false` if something else is behind it.
///
/// # Safety
///
/// It must come from [`allocate`] with the size `old`; what it loses must not be used again.
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
