//! Allocation that reports failure instead of panicking.

use alloc::vec::Vec;

/// There is not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Moves a value into memory of the heap that is never freed; `None` if there is no memory. For the few
/// values of `arch`. Other code uses [`crate::memory::leak`], which keeps permanent values apart from blocks
/// that are freed.
pub(crate) fn leak<T>(value: T) -> Option<&'static T> {
    let mut block = Vec::new();
    block.try_reserve_exact(1).ok()?;
    block.push(value);
    block.leak().first()
}
