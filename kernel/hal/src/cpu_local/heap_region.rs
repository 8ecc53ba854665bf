//! The region from which a CPU allocates blocks, with the feature `bump`. No other CPU uses it, so blocks
//! need no lock.

use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::AtomicPtr;

use super::CpuLocal;

/// The words of a [`BumpRegion`](hermit_memory::bump::BumpRegion). Only its CPU uses them, with interrupts
/// masked.
#[derive(Debug)]
pub(crate) struct HeapRegion {
    next: AtomicPtr<()>,
    end: AtomicPtr<()>,
}

/// Offset of [`HeapRegion::next`] in the CPU-local block.
pub(crate) const NEXT: usize = offset_of!(CpuLocal, heap) + offset_of!(HeapRegion, next);

/// Offset of [`HeapRegion::end`] in the CPU-local block.
pub(crate) const END: usize = offset_of!(CpuLocal, heap) + offset_of!(HeapRegion, end);

impl HeapRegion {
    /// A region without memory.
    pub(crate) const fn new() -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), end: AtomicPtr::new(ptr::null_mut()) }
    }
}
