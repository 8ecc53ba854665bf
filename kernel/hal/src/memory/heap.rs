//! The heap.
//!
//! Large blocks come straight from the frame allocator ([`large`]). All other blocks come from [`blocks`],
//! which claims [`pages`] from the frame allocator. A feature selects the implementation of [`blocks`]:
//! | feature | blocks |
//! | --- | --- |
//! | none | free lists of each CPU above a shared allocator, talc, which frees pages again |
//! | `tlsf` | free lists that exchange single blocks with TLSF, of bounded time; overrides `bump` |
//! | `bump` | one block after the other, in a region of each CPU; only the last block is freed |

#[cfg(all(feature = "bump", not(feature = "tlsf")))]
mod bump;
mod drain;
#[cfg(any(feature = "tlsf", not(feature = "bump")))]
mod lists;
#[cfg(all(feature = "bump", not(feature = "tlsf")))]
mod local_region;
mod pages;
#[cfg(any(feature = "tlsf", not(feature = "bump")))]
mod shared;

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use super::{host_return, large};
use crate::interrupts;
use crate::once::Once;

#[cfg(all(feature = "bump", not(feature = "tlsf")))]
use bump as blocks;
#[cfg(any(feature = "tlsf", not(feature = "bump")))]
use lists as blocks;

pub use blocks::{allocate, deallocate, has_free_block, heap_available, heap_lock_count};
pub(super) use drain::drain_all;
pub use drain::drain_if_requested;
pub(crate) use drain::join;

/// Function that frees memory that is kept for reuse.
static RECLAIM: Once<fn()> = Once::new();

/// The global allocator of the kernel, for `Box` and `Vec`.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, expect(dead_code, reason = "unit tests use the allocator of their host"))]
static ALLOCATOR: KernelHeap = KernelHeap;

#[derive(Debug)]
struct KernelHeap;

// SAFETY: `allocate` returns null or memory of the layout's size and alignment that no other allocation has
// until it is passed to `deallocate`; `reallocate` keeps the contents. None of them panics or unwinds.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout.size(), layout.align())
    }

    #[inline(never)] // The kernel drops boxes and vectors at many places.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the contract of `GlobalAlloc` the block comes from `alloc` or `realloc` of this
        // allocator with this layout, and is not used again.
        unsafe { deallocate(pointer, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the contract of `GlobalAlloc` the block comes from `alloc` or `realloc` of this
        // allocator with this layout, and is used no more if the result is not null.
        unsafe { reallocate(pointer, layout.size(), layout.align(), size) }
    }
}

/// Returns true if a block of this size comes straight from the frame allocator. Talc would search long for
/// such blocks, and cannot allocate the largest ones.
#[inline]
const fn is_large(size: usize) -> bool {
    size >= large::MIN_SIZE
}

/// Allocates a block when the calling CPU has no free block of the size.
#[cold]
#[inline(never)]
fn allocate_slow(size: usize, align: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size, align) else { return ptr::null_mut() };
    if size == 0 {
        return ptr::without_provenance_mut(align);
    }
    let take = || if is_large(size) { large::allocate(layout) } else { blocks::allocate_shared(layout) };
    let block = take().or_else(|| {
        // Frees the memory that the kernel keeps for reuse, before the second attempt.
        RECLAIM.get().filter(|_| interrupts::are_unmasked()).and_then(|reclaim| {
            reclaim();
            take()
        })
    });
    block.map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Sets the function that frees the memory that the kernel keeps for reuse; the function also calls
/// [`super::reclaim`]. Only the first call has an effect. The heap calls the function when an allocation
/// would fail, with no spinlock held. The allocating thread may hold sleeping locks.
pub fn set_reclaim(reclaim: fn()) {
    RECLAIM.call_once(|| reclaim);
}

/// Allocates a block as [`allocate`] does, and fills it with zero.
#[inline]
#[must_use]
pub fn allocate_zeroed(size: usize, align: usize) -> *mut u8 {
    let pointer = allocate(size, align);
    if !pointer.is_null() {
        // SAFETY: the block was just allocated with this size, so it has no other user. (With size 0 nothing
        // is written.)
        unsafe { pointer.write_bytes(0, size) };
    }
    pointer
}

/// Frees a block that does not go to a list or region of the calling CPU.
///
/// # Safety
///
/// The contract of [`deallocate`].
#[cold]
#[inline(never)]
unsafe fn deallocate_slow(pointer: *mut u8, size: usize, align: usize) {
    let Ok(layout) = Layout::from_size_align(size, align) else { return };
    if is_large(size) {
        // SAFETY: a block of this size was allocated by `large::allocate`, and is not used again (contract).
        unsafe { large::deallocate(pointer, size) };
    } else if size != 0 {
        // SAFETY: a block of this size was allocated by `blocks::allocate_shared`, with this layout, and is
        // not used again (contract).
        unsafe { blocks::deallocate_shared(pointer, layout) };
    }
    host_return::notify();
}

/// Changes the size of a block from `old`. The block may move. If there is no memory, returns null, and
/// nothing has changed.
///
/// # Safety
///
/// `pointer` must come from this heap, with the size `old` and this alignment, and not be used again unless
/// the result is null.
pub unsafe fn reallocate(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    // SAFETY: the block comes from this heap with this size and alignment (same contract).
    if unsafe { resize(pointer, old, align, size) } {
        return pointer;
    }
    if is_large(old) && is_large(size) {
        // SAFETY: a block of the size `old` was allocated by `large`, and is not used again if it moves (same
        // contract).
        if let Some(moved) = unsafe { large::relocate(pointer, old, align, size) } {
            return moved.as_ptr();
        }
    }
    // SAFETY: the block comes from this heap with this size and alignment (same contract).
    unsafe { move_to(pointer, old, align, size) }
}

/// Changes the size of a block in place. Returns false if that is impossible.
///
/// # Safety
///
/// The contract of [`reallocate`].
unsafe fn resize(pointer: *mut u8, old: usize, align: usize, size: usize) -> bool {
    let layouts = [old, size].map(|size| Layout::from_size_align(size, align));
    let [Ok(layout), Ok(_)] = layouts else { return false };
    if old.min(size) == 0 {
        return false;
    }
    match [old, size].map(is_large) {
        // SAFETY: a block of the size `old` was allocated by `large::allocate`; its bytes beyond the new size
        // are not used again (contract).
        [true, true] => unsafe { large::resize(pointer, old, size) },
        // SAFETY: a block of the size `old` comes from `blocks` with this layout (contract); both sizes are
        // not zero, those of layouts, and not large.
        [false, false] => unsafe { blocks::resize(pointer, layout, size) },
        _ => false,
    }
}

/// Allocates a block of another size, moves the contents there, and frees the old block. Returns null if
/// there is no memory.
///
/// # Safety
///
/// The contract of [`reallocate`].
unsafe fn move_to(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    let moved = allocate(size, align);
    if !moved.is_null() {
        // SAFETY: both blocks have at least the smaller of the two sizes, and a new block does not overlap
        // another one.
        unsafe { ptr::copy_nonoverlapping(pointer, moved, old.min(size)) };
        // SAFETY: the block comes from this heap with this size and alignment, and is not used again, as the
        // result is not null (contract).
        unsafe { deallocate(pointer, old, align) };
    }
    moved
}
