//! Memory that may not be there: shared objects whose making can fail.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::interrupts::Masked;

/// The counts before a shared value.
const COUNTS: usize = 2 * size_of::<usize>();

/// A shared object; `None` if there is no memory for it.
///
/// A block of the right size is taken and given back first: it stays with this CPU, and is the one that `Arc` gets.
pub(crate) fn arc<T>(value: T) -> Option<Arc<T>> {
    let _masked = Masked::new();
    let mut block: Vec<usize> = Vec::new();
    let words = (COUNTS + size_of::<T>()).div_ceil(size_of::<usize>());
    block.try_reserve_exact(words).ok()?;
    drop(block);
    Some(Arc::new(value))
}
