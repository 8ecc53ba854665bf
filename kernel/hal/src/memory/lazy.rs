//! Lazy ranges: parts of large blocks whose pages get memory when they are touched, by a page fault.
//!
//! Only the growth of a block is lazy, and only if there is not enough free memory for all of it. If there is
//! no memory for a page when it is touched, the machine ends, as a process of Linux does.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_memory::lazy_ranges::LazyRanges;

use super::{OutOfMemory, fresh};
use crate::sync::SpinLock;

/// Maximum number of lazy ranges. There are few, since a range is made lazy only when memory is short.
const MAX_RANGES: usize = 16;

/// Sizes in which memory is mapped, from large to small. A fault uses the largest size for which there are
/// contiguous frames.
const PIECES: [u64; 3] = [LARGE_PAGE_SIZE, 64 << 10, PAGE_SIZE];

/// The lazy ranges. Some of their pages may be mapped already. Lazy memory is not touched under this lock.
static RANGES: SpinLock<LazyRanges<MAX_RANGES>> = SpinLock::new(LazyRanges::new());

fn range(start: u64, size: u64) -> AddressRange {
    AddressRange { start, end: start + size }
}

/// Makes a range lazy.
///
/// # Errors
///
/// [`OutOfMemory`] if there are too many lazy ranges.
pub(super) fn reserve(start: u64, size: u64) -> Result<(), OutOfMemory> {
    RANGES.lock().add(range(start, size)).map_err(|_| OutOfMemory)
}

/// Removes addresses up to the end of a block, before they are unmapped.
pub(super) fn forget(start: u64, size: u64) {
    RANGES.lock().remove(range(start, size));
}

/// Moves the ranges of a block to its new address.
pub(super) fn relocate(from: u64, to: u64, size: u64) {
    RANGES.lock().relocate(range(from, size), to);
}

/// True if an address is in a lazy range.
pub(crate) fn contains(address: u64) -> bool {
    RANGES.lock().find(address).is_some()
}

/// Maps memory at an address that was touched. Returns false if the address is not in a lazy range, or if
/// there is no memory.
pub(crate) fn touch(address: u64) -> bool {
    let Some(range) = RANGES.lock().find(address) else { return false };
    PIECES.into_iter().any(|size| {
        let start = address & !(size - 1);
        let fits = range.start <= start && start + size <= range.end;
        // A part of a larger piece may be mapped already, by another CPU, or because memory was short.
        fits && fresh::map_lazy_piece(start, size).is_ok()
    })
}
