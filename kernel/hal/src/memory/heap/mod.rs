//! The heap: free blocks of each CPU ([`crate::cpu_local::free_blocks`]) above a shared allocator (talc), which
//! claims physical memory as it needs more and frees it again.

mod cache;
mod shared;

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use hermit_memory::size_classes;
use spin::Once;

use super::large;
use crate::cpu_local::free_blocks::{self, ListOffset};
use crate::interrupts::{self, Masked};

pub(super) use cache::drain_caches;
pub(crate) use cache::join;
pub use cache::{drain_if_requested, has_free_block};
pub use shared::{heap_available, heap_lock_count};

/// Function that frees memory which is kept for reuse.
static RECLAIM: Once<fn()> = Once::new();

/// The global allocator of the kernel, for `Box` and `Vec`.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, expect(dead_code, reason = "unit tests use the allocator of their host"))]
static ALLOCATOR: KernelHeap = KernelHeap;

#[derive(Debug)]
struct KernelHeap;

// SAFETY: `allocate` returns null or memory of the layout's size and alignment that no other allocation has until
// it is passed to `deallocate`; `reallocate` keeps the contents. None of them panics or unwinds.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout.size(), layout.align())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the contract of `GlobalAlloc` the block comes from `alloc` or `realloc` of this allocator with
        // this layout, and is not used again.
        unsafe { deallocate(pointer, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the contract of `GlobalAlloc` the block comes from `alloc` or `realloc` of this allocator with
        // this layout, and is used no more if the result is not null.
        unsafe { reallocate(pointer, layout.size(), layout.align(), size) }
    }
}

/// Whether a block comes straight from the frame allocator: talc searches long for such sizes, and cannot serve the
/// largest.
#[inline]
const fn is_large(size: usize) -> bool {
    size >= large::MIN_SIZE
}

/// The list of free blocks of this size and alignment; `None` if CPUs keep none of it.
#[inline]
fn list(size: usize, align: usize) -> Option<ListOffset> {
    if align <= size_classes::ALIGN { ListOffset::of(size) } else { None }
}

/// Allocates a block; null if there is no memory, or if size and alignment are not those of a layout. A size of
/// zero gives a dangling pointer.
#[inline]
#[must_use]
pub fn allocate(size: usize, align: usize) -> *mut u8 {
    if let Some(list) = list(size, align) {
        let masked = Masked::new();
        if let Some(block) = free_blocks::pop(list) {
            return block.as_ptr();
        }
        drop(masked);
    }
    allocate_slow(size, align)
}

/// Allocates a block if this CPU has none.
#[cold]
#[inline(never)]
fn allocate_slow(size: usize, align: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size, align) else { return ptr::null_mut() };
    if size == 0 {
        return ptr::without_provenance_mut(align);
    }
    let take = || list(size, align).map_or_else(|| allocate_shared(layout), cache::refill);
    let block = take().or_else(|| {
        // The kernel may keep memory for reuse.
        RECLAIM.get().filter(|_| interrupts::are_unmasked()).and_then(|reclaim| {
            reclaim();
            take()
        })
    });
    block.map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Sets the function that frees memory which is kept for reuse, [`super::reclaim`] included; the first call counts.
/// It is called when an allocation would fail, with no
/// spinlock held; sleeping locks may be.
pub fn set_reclaim(reclaim: fn()) {
    RECLAIM.call_once(|| reclaim);
}

/// Allocates a block of which CPUs keep no free ones.
fn allocate_shared(layout: Layout) -> Option<NonNull<u8>> {
    if is_large(layout.size()) {
        return large::allocate(layout);
    }
    let masked = Masked::new();
    // SAFETY: the size is not zero, which `allocate_slow`, the only caller, has checked.
    shared::with(&masked, |heap| unsafe { heap.allocate(layout) })
}

/// Allocates a block as [`allocate`] does, and fills it with zero.
#[inline]
#[must_use]
pub fn allocate_zeroed(size: usize, align: usize) -> *mut u8 {
    let pointer = allocate(size, align);
    if !pointer.is_null() {
        // SAFETY: the block was just allocated with this size, so it has no other user. (With size 0 nothing is
        // written.)
        unsafe { pointer.write_bytes(0, size) };
    }
    pointer
}

/// Frees a block.
///
/// # Safety
///
/// `pointer` must come from this heap, with this size and alignment, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, size: usize, align: usize) {
    let Some(list) = list(size, align) else {
        // SAFETY: the block comes from this heap with this size and alignment, and is not used again (same contract).
        return unsafe { deallocate_shared(pointer, size, align) };
    };
    let masked = Masked::new();
    // SAFETY: the pointer comes from this heap (contract), whose blocks are not null.
    let block = unsafe { NonNull::new_unchecked(pointer) };
    // SAFETY: the block was allocated with this size, so it has the size of this class, and it is not used again
    // (contract).
    let has_room = unsafe { free_blocks::push(list, block) };
    if !has_room {
        cache::drain_full(masked, list);
    }
}

/// Frees a block of which CPUs keep no free ones.
///
/// # Safety
///
/// The contract of [`deallocate`].
#[cold]
#[inline(never)]
unsafe fn deallocate_shared(pointer: *mut u8, size: usize, align: usize) {
    let Ok(layout) = Layout::from_size_align(size, align) else { return };
    if is_large(size) {
        // SAFETY: a block of this size was allocated by `large::allocate`, and is not used again (contract).
        return unsafe { large::deallocate(pointer, size) };
    }
    if size != 0 {
        let masked = Masked::new();
        // SAFETY: a block of this size and alignment was allocated by talc with its own layout, and is not used
        // again (contract).
        shared::with(&masked, |heap| unsafe { heap.deallocate(pointer, layout) });
    }
}

/// Changes the size of a block from `old`; the block may move. Null if there is no memory; then nothing has changed.
///
/// # Safety
///
/// `pointer` must come from this heap, with the size `old` and this alignment, and not be used again unless the
/// result is null.
pub unsafe fn reallocate(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    let lists = [old, size].map(|size| list(size, align));
    if let [Some(old), Some(new)] = lists
        && old == new
    {
        return pointer;
    }
    if lists == [None; 2]
        && let Ok(layout) = Layout::from_size_align(old, align)
        && Layout::from_size_align(size, align).is_ok()
        && old.min(size) != 0
        && is_large(old) == is_large(size)
    {
        if is_large(old) {
            // SAFETY: a block of the size `old` was allocated by `large::allocate`; its bytes beyond the new size
            // are not used again (contract).
            if unsafe { large::resize(pointer, old, size) } {
                return pointer;
            }
            // SAFETY: the block comes from this heap with this size and alignment (same contract).
            return unsafe { move_to(pointer, old, align, size) };
        }
        let masked = Masked::new();
        // SAFETY: a block of this size and alignment was allocated by talc with `layout` (contract).
        if shared::with(&masked, |heap| unsafe { heap.try_realloc_in_place(pointer, layout, size) }) {
            return pointer;
        }
    }
    // SAFETY: the block comes from this heap with this size and alignment (same contract).
    unsafe { move_to(pointer, old, align, size) }
}

/// Moves a block to a new one of another size.
///
/// # Safety
///
/// The contract of [`reallocate`].
unsafe fn move_to(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    let moved = allocate(size, align);
    if !moved.is_null() {
        // SAFETY: both blocks have at least the smaller of the two sizes, and a new block does not overlap another
        // one.
        unsafe { ptr::copy_nonoverlapping(pointer, moved, old.min(size)) };
        // SAFETY: the block comes from this heap with this size and alignment, and is not used again, as the result
        // is not null (contract).
        unsafe { deallocate(pointer, old, align) };
    }
    moved
}
