//! The region from which the calling CPU allocates.

use core::ptr::{self, without_provenance_mut};

use hermit_memory::bump::BumpRegion;

use crate::arch::local;
use crate::cpu_local::heap_region::{END, NEXT};
use crate::interrupts::Masked;

/// Address at which the next block of the calling CPU begins.
#[inline]
pub(super) fn next(_: &Masked) -> usize {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits.
    unsafe { local::load::<NEXT>() }.addr()
}

/// The region of the calling CPU.
#[inline]
pub(super) fn get(masked: &Masked) -> BumpRegion {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits.
    let end = unsafe { local::load::<END>() };
    BumpRegion { next: next(masked), end: end.addr() }
}

/// Sets the address at which the next block of the calling CPU begins.
#[inline]
pub(super) fn set_next(_: &Masked, next: usize) {
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits, which
    // may have any value.
    unsafe { local::store::<NEXT>(without_provenance_mut(next)) };
}

/// Replaces the region of the calling CPU.
pub(super) fn set(masked: &Masked, region: BumpRegion) {
    set_next(masked, region.next);
    // SAFETY: the block of each CPU is a `CpuLocal`, in which this is the offset of a word of 64 bits, which
    // may have any value.
    unsafe { local::store::<END>(without_provenance_mut(region.end)) };
}

/// A pointer to a block in a region.
#[inline]
pub(super) fn block(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}
