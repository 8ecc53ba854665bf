//! Allocation that can fail: `Arc::try_new` is not stable.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::interrupts::Masked;

/// Size of the reference counts that `Arc` stores before its value.
const COUNTS_SIZE: usize = 2 * size_of::<usize>();

/// An `Arc` of `value`; `None` without memory.
///
/// Allocates and frees a block of the same size first. Interrupts are masked, so it is still in the free list of this
/// CPU when `Arc` allocates, which therefore cannot fail.
pub(crate) fn arc<T>(value: T) -> Option<Arc<T>> {
    let _masked = Masked::new();
    let mut block: Vec<usize> = Vec::new();
    let words = (COUNTS_SIZE + size_of::<T>()).div_ceil(size_of::<usize>());
    block.try_reserve_exact(words).ok()?;
    drop(block);
    Some(Arc::new(value))
}
