//! Pages of the frame allocator that the heap claims when it grows.

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

use crate::memory::paging;

/// Size of a page in bytes.
pub(super) const PAGE: usize = to_usize(PAGE_SIZE);

/// Smallest growth of the heap in bytes.
pub(super) const GROWTH: usize = 256 << 10;

/// Allocates at least `needed` bytes, and at least [`GROWTH`] unless memory is short. Returns the address and
/// the size in bytes, which is a multiple of the page size.
pub(super) fn claim(needed: usize) -> Option<(usize, usize)> {
    let size = needed.max(GROWTH).checked_next_multiple_of(PAGE)?;
    let claim = |size: usize| {
        paging::with(|memory| memory.allocate(size as u64, 0)).map(|start| (to_usize(start), size))
    };
    claim(size).or_else(|_| claim(needed.next_multiple_of(PAGE))).ok()
}
