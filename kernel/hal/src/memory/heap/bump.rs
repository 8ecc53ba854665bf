//! Blocks one after the other, in a region of each CPU ([`crate::cpu_local::heap_region`]). Only the last
//! block of a CPU can be freed and can grow. The memory of all other blocks stays in use until the machine
//! ends.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_memory::bump::{self, ALIGN, BumpRegion};

use super::{allocate_slow, deallocate_slow, is_large, local_region, pages};
use crate::interrupts::Masked;
use crate::memory::paging;

/// Number of times that the region of a CPU grew, under the memory lock.
static GROWTH_COUNT: AtomicU64 = AtomicU64::new(0);

/// Allocates a block. Returns null if there is no memory, or if size and alignment are not valid for a
/// [`Layout`]. For a size of zero, returns a dangling pointer.
#[inline]
#[must_use]
pub fn allocate(size: usize, align: usize) -> *mut u8 {
    if align <= ALIGN && !is_large(size) {
        let masked = Masked::new();
        let region = local_region::get(&masked);
        if let Some(rest) = region.allocate(size) {
            local_region::set_next(&masked, rest.next);
            return local_region::block(region.next);
        }
        drop(masked);
    }
    allocate_slow(size, align)
}

/// Allocates a block if the region of the calling CPU has no room. The size is not zero, and less than that
/// of large blocks.
pub(super) fn allocate_shared(layout: Layout) -> Option<NonNull<u8>> {
    let masked = Masked::new();
    let mut region = local_region::get(&masked);
    let has_room = |region: BumpRegion| {
        let region = region.aligned(layout.align())?;
        Some((region.next, region.allocate(layout.size())?))
    };
    let (start, rest) = match has_room(region) {
        Some(block) => block,
        None => {
            region = grow(region, layout)?;
            has_room(region)?
        }
    };
    local_region::set(&masked, rest);
    NonNull::new(local_region::block(start))
}

/// Makes room for a block: extends the region by the memory after it if that is free, or starts a new region.
fn grow(region: BumpRegion, layout: Layout) -> Option<BumpRegion> {
    GROWTH_COUNT.fetch_add(1, Relaxed);
    let needed = layout.size().checked_add(layout.align())?;
    if let Some(region) = extend(region, needed) {
        return Some(region);
    }
    let (start, size) = pages::claim(needed)?;
    give_back(region);
    Some(BumpRegion { next: start, end: start + size })
}

/// Extends a region by the memory after it, in whole pages.
fn extend(region: BumpRegion, needed: usize) -> Option<BumpRegion> {
    let size = needed.max(pages::GROWTH).checked_next_multiple_of(pages::PAGE)?;
    let is_extended =
        region != BumpRegion::EMPTY && paging::with(|memory| memory.extend(region.end as u64, size as u64));
    is_extended.then(|| BumpRegion { end: region.end + size, ..region })
}

/// Frees the unused whole pages of a region. Returns the rest of the region.
fn give_back(region: BumpRegion) -> BumpRegion {
    let (rest, start, size) = region.take_pages();
    if size > 0 {
        paging::with(|memory| memory.free(start as u64, size as u64));
    }
    rest
}

/// Frees a block, if it is the last block of this CPU or a large block. Has no effect on other blocks.
///
/// # Safety
///
/// `pointer` must come from this heap, with this size and alignment, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, size: usize, align: usize) {
    if !is_large(size) {
        let masked = Masked::new();
        if bump::end_of(pointer.addr(), size) == local_region::next(&masked) {
            local_region::set_next(&masked, pointer.addr());
            return;
        }
        drop(masked);
    }
    // SAFETY: the block comes from this heap with this size and alignment, and is not used again (same
    // contract).
    unsafe { deallocate_slow(pointer, size, align) };
}

/// Does nothing, since the block is not the last one: its memory is not used again.
///
/// # Safety
///
/// The block must not be used again.
pub(super) unsafe fn deallocate_shared(_: *mut u8, _: Layout) {}

/// Changes the size of a block in place. Returns false if that is impossible. `size` is not zero, less than
/// that of large blocks, and valid with the alignment of the block.
///
/// # Safety
///
/// `block` must come from this heap with this layout.
pub(super) unsafe fn resize(block: *mut u8, layout: Layout, size: usize) -> bool {
    let masked = Masked::new();
    let region = local_region::get(&masked);
    let resized = region.resize(block.addr(), layout.size(), size);
    let rest = resized.or_else(|| {
        // The last block can grow into the memory after the region.
        region.deallocate(block.addr(), layout.size())?;
        extend(region, size)?.resize(block.addr(), layout.size(), size)
    });
    rest.map(|rest| local_region::set(&masked, rest)).is_some()
}

/// Returns true if the calling CPU has room for a block of `size` bytes, with any alignment up to 16 bytes.
/// Then the next allocation of this size cannot fail while interrupts are masked.
#[inline]
#[must_use]
pub fn has_free_block(masked: &Masked, size: usize) -> bool {
    size <= local_region::get(masked).free()
}

/// Frees the unused whole pages of the calling CPU's region.
#[cold]
pub(super) fn drain(masked: &Masked) {
    let rest = give_back(local_region::get(masked));
    local_region::set(masked, rest);
}

/// Number of times that a lock that all CPUs share was taken.
#[must_use]
pub fn heap_lock_count() -> u64 {
    GROWTH_COUNT.load(Relaxed)
}

/// Always 0: there is no shared free memory, since each CPU has its own region.
#[must_use]
pub fn heap_available() -> u64 {
    0
}
