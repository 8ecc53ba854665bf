//! The region from which a CPU allocates blocks, with the feature `bump`. No other CPU uses it, so blocks need no lock.

use core::mem::offset_of;
use core::ptr::{self, without_provenance_mut};
use core::sync::atomic::AtomicPtr;

use hermit_memory::bump::BumpRegion;

use super::CpuLocal;
use crate::arch::local;
use crate::interrupts::Masked;

/// The words of a [`BumpRegion`]. Only its CPU uses them, with interrupts masked.
#[derive(Debug)]
pub(crate) struct HeapRegion {
    next: AtomicPtr<()>,
    end: AtomicPtr<()>,
}

/// Offset of [`HeapRegion::next`] in the CPU-local block.
const NEXT: usize = offset_of!(CpuLocal, heap) + offset_of!(HeapRegion, next);

/// Offset of [`HeapRegion::end`] in the CPU-local block.
const END: usize = offset_of!(CpuLocal, heap) + offset_of!(HeapRegion, end);

impl HeapRegion {
    /// A region without memory.
    pub(crate) const fn new() -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), end: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// Where the next block of the CPU that runs begins.
#[inline]
pub(crate) fn next(_: &Masked) -> usize {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits.
    unsafe { local::load::<NEXT>() }.addr()
}

/// The region of the CPU that runs.
#[inline]
pub(crate) fn get(masked: &Masked) -> BumpRegion {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits.
    let end = unsafe { local::load::<END>() };
    BumpRegion { next: next(masked), end: end.addr() }
}

/// Changes where the next block of the CPU that runs begins.
#[inline]
pub(crate) fn set_next(_: &Masked, next: usize) {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits, which may have any value.
    unsafe { local::store::<NEXT>(without_provenance_mut(next)) };
}

/// Replaces the region of the CPU that runs.
pub(crate) fn set(masked: &Masked, region: BumpRegion) {
    set_next(masked, region.next);
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits, which may have any value.
    unsafe { local::store::<END>(without_provenance_mut(region.end)) };
}

/// A pointer to a block in a region.
#[inline]
pub(crate) fn block(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}
