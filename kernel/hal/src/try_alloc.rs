//! Values on the heap without a panic if there is no memory: `Arc::try_new` and `Box::try_new` are not
//! stable.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::interrupts::Masked;
use crate::memory;

/// Size of the reference counts that `Arc` stores before its value.
const COUNTS_SIZE: usize = 2 * size_of::<usize>();

/// An `Arc` of `value`; `None` without memory.
pub fn arc<T>(value: T) -> Option<Arc<T>> {
    arc_with(|| value)
}

/// Allocates an `Arc` and initialises it with the result of `make`; `None` without memory. `make` must not
/// allocate. The compiler constructs a large value in place instead of moving it into the `Arc`, since on no
/// path the value would have to be dropped outside of the `Arc`.
#[inline(always)]
pub fn arc_with<T>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
    with_block(COUNTS_SIZE + size_of::<T>(), align_of::<T>(), || Arc::new(make()))
}

/// A `Box` of `value`; `None` without memory.
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    with_block(size_of::<T>(), align_of::<T>(), || Box::new(value))
}

/// Calls `allocate`, which allocates at most one block of `size` bytes; `None` without memory.
///
/// If this CPU has no free block of the size, it allocates and frees one first. Interrupts are masked, so the
/// block is still in the free list of this CPU when `allocate` allocates, which therefore cannot fail.
#[inline(always)]
fn with_block<R>(size: usize, align: usize, allocate: impl FnOnce() -> R) -> Option<R> {
    let masked = Masked::new();
    let words = size.div_ceil(size_of::<usize>());
    if align > align_of::<usize>() || !memory::has_free_block(&masked, words * size_of::<usize>()) {
        reserve(words)?;
    }
    Some(allocate())
}

/// Allocates and frees a block.
#[cold]
fn reserve(words: usize) -> Option<()> {
    let mut block: Vec<usize> = Vec::new();
    block.try_reserve_exact(words).ok()
}
