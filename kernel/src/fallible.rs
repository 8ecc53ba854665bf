//! Allocation that can fail: `Arc::try_new` is not stable.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::interrupts::Masked;
use hermit_hal::memory;

/// Size of the reference counts that `Arc` stores before its value.
const COUNTS_SIZE: usize = 2 * size_of::<usize>();

/// An `Arc` of `value`; `None` without memory.
///
/// If this CPU has no free block of the size, it allocates and frees one first. Interrupts are masked, so the block is still
/// in the free list of this CPU when `Arc` allocates, which therefore cannot fail.
pub(crate) fn arc<T>(value: T) -> Option<Arc<T>> {
    let masked = Masked::new();
    let words = (COUNTS_SIZE + size_of::<T>()).div_ceil(size_of::<usize>());
    if align_of::<T>() > align_of::<usize>() || !memory::has_free_block(&masked, words * size_of::<usize>()) {
        reserve(words)?;
    }
    Some(Arc::new(value))
}

/// Allocates and frees a block.
#[cold]
fn reserve(words: usize) -> Option<()> {
    let mut block: Vec<usize> = Vec::new();
    block.try_reserve_exact(words).ok()
}
