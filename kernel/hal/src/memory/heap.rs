//! The heap: talc over physical memory that it claims as it needs more and gives back, below a CPU's own free blocks.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull, with_exposed_provenance_mut};

use hermit_interface::to_usize;
use hermit_memory::classes;
use talc::base::Talc;
use talc::base::binning::{Binning, DefaultBinning};
use talc::source::Source;

use super::cache::List;
use super::paging;
use crate::arch::local;
use crate::interrupts::Masked;
use crate::sync::MaskedLock;

/// The heap grows by at least this much.
const GROWTH: usize = 256 << 10;

/// What talc needs of a claimed block for itself: its lists (the first time), and tags.
const OVERHEAD: usize = 8 << 10;

/// If so much is free at the end of a claimed block, most of it is given back.
const EXCESS: usize = 1 << 20;

const PAGE: usize = 4096;

static HEAP: MaskedLock<Talc<Frames, DefaultBinning>> = MaskedLock::new(Talc::new(Frames));

/// What `Box` and `Vec` of the kernel use.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[derive(Debug)]
struct Allocator;

// SAFETY: `allocate` returns fresh memory for the layout, or null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { deallocate(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { reallocate(pointer, layout, size) }
    }
}

/// Gives talc memory, in whole pages, and takes it back.
#[derive(Debug)]
struct Frames;

// SAFETY: `acquire` claims fresh memory and does not use this allocator.
unsafe impl Source for Frames {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let needed =
            layout.size().checked_add(layout.align()).and_then(|size| size.checked_add(OVERHEAD)).ok_or(())?;
        let size = needed.max(GROWTH).checked_next_multiple_of(PAGE).ok_or(())?;
        let claim =
            |size: usize| paging::with(|memory| memory.allocate(size as u64)).map(|start| (start, size));
        // A machine that is almost full gives what is needed, if not more.
        let (start, size) = claim(size).or_else(|_| claim(needed.next_multiple_of(PAGE))).map_err(|_| ())?;
        let start = with_exposed_provenance_mut(to_usize(start));
        // SAFETY: the memory was free, is mapped, and is the heap's from now on.
        unsafe { talc.claim(start, size) }.map(|_| ()).ok_or(())
    }

    const TRACK_HEAP_END: bool = true;

    unsafe fn resize(&mut self, chunk_base: *mut u8, heap_end: *mut u8, is_heap_base: bool) -> *mut u8 {
        let (base, end) = (chunk_base.addr(), heap_end.addr());
        let (start, new_end) = if is_heap_base {
            // A block starts with a page; the chunk in it starts at most one unit later.
            ((base - 1) / PAGE * PAGE, chunk_base)
        } else if end - base >= EXCESS {
            let start = (base + GROWTH / 2).next_multiple_of(PAGE);
            (start, chunk_base.with_addr(start))
        } else {
            return heap_end;
        };
        // What is not whole pages at the end was never part of the block.
        let size = end.next_multiple_of(PAGE) - start;
        paging::with(|memory| memory.free(start as u64, size as u64));
        new_end
    }
}

/// The class of a layout that a CPU keeps free blocks for.
#[inline]
fn class(layout: Layout) -> Option<usize> {
    let cached = layout.align() <= classes::ALIGN && layout.size() <= classes::MAX_SIZE;
    cached.then(|| classes::class(layout.size()))
}

/// Allocates; null if there is no memory. A layout of size zero gives a dangling pointer.
#[inline]
#[must_use]
pub fn allocate(layout: Layout) -> *mut u8 {
    let Some(class) = class(layout) else { return allocate_shared(layout) };
    let masked = Masked::new();
    // A size of zero has no list.
    let Some(list) = local::current().caches.list(class) else { return without_memory(layout) };
    match list.pop() {
        Some(block) => block.as_ptr(),
        None => refill(&masked, list, class),
    }
}

/// For a size of zero.
const fn without_memory(layout: Layout) -> *mut u8 {
    ptr::without_provenance_mut(layout.align())
}

/// The layout of all blocks of a class.
fn layout_of(class: usize) -> Option<Layout> {
    Layout::from_size_align(classes::size(class), classes::ALIGN).ok()
}

/// Takes blocks from the heap; returns one of them.
#[cold]
fn refill(masked: &Masked, list: &List, class: usize) -> *mut u8 {
    let Some(layout) = layout_of(class) else { return ptr::null_mut() };
    let more = list.next_batch(class) - 1;
    HEAP.with(masked, |heap| {
        // SAFETY: the size is not zero.
        let Some(block) = (unsafe { heap.allocate(layout) }) else { return ptr::null_mut() };
        for _ in 0..more {
            // Only what the heap has: it need not grow for blocks that nobody has asked for.
            // SAFETY: the size is not zero.
            let Some(block) = (unsafe { heap.try_allocate(layout) }) else { break };
            // SAFETY: the block is fresh and has the class's layout.
            unsafe { list.push(block) };
        }
        block.as_ptr()
    })
}

/// Gives blocks of a list back to the heap.
#[cold]
fn drain(masked: &Masked, list: &List, class: usize, count: usize) {
    let Some(layout) = layout_of(class) else { return };
    HEAP.with(masked, |heap| {
        for _ in 0..count {
            let Some(block) = list.pop() else { break };
            // SAFETY: blocks in the list were allocated with this layout, and are nobody's.
            unsafe { heap.deallocate(block.as_ptr(), layout) };
        }
    });
}

/// Gives all free blocks that this CPU keeps back to the heap.
pub(super) fn drain_cache() {
    let masked = Masked::new();
    for (class, list) in local::current().caches.lists() {
        drain(&masked, list, class, usize::MAX);
    }
}

/// Memory that no CPU keeps free blocks of.
#[cold]
fn allocate_shared(layout: Layout) -> *mut u8 {
    let masked = Masked::new();
    // SAFETY: the size is not zero: a layout that has no class is large, or aligned to more than its size can be zero.
    let allocate =
        || HEAP.with(&masked, |heap| (layout.size() != 0).then(|| unsafe { heap.allocate(layout) }));
    match allocate() {
        Some(block) => block.map_or(ptr::null_mut(), NonNull::as_ptr),
        None => without_memory(layout),
    }
}

/// Allocates memory filled with zero; null if there is none.
#[inline]
#[must_use]
pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
    let pointer = allocate(layout);
    if !pointer.is_null() {
        // SAFETY: the memory was just allocated with this size.
        unsafe { pointer.write_bytes(0, layout.size()) };
    }
    pointer
}

/// Frees.
///
/// # Safety
///
/// `pointer` must come from this heap, with this layout, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
    let Some(class) = class(layout) else {
        // SAFETY: the caller's promise.
        return unsafe { deallocate_shared(pointer, layout) };
    };
    let masked = Masked::new();
    // A size of zero has no list.
    let Some(list) = local::current().caches.list(class) else { return };
    let Some(block) = NonNull::new(pointer) else { return };
    // SAFETY: the caller's promise; a layout has the same class when it is freed as when it was allocated.
    let count = unsafe { list.push(block) };
    let batch = classes::batch(class);
    if count as usize > 2 * batch {
        drain(&masked, list, class, batch);
    }
}

/// # Safety
///
/// As for [`deallocate`].
#[cold]
unsafe fn deallocate_shared(pointer: *mut u8, layout: Layout) {
    if layout.size() != 0 {
        let masked = Masked::new();
        // SAFETY: the caller's promise; what has no class was allocated with its own layout.
        HEAP.with(&masked, |heap| unsafe { heap.deallocate(pointer, layout) });
    }
}

/// Changes the size of an allocation, which may move; null if there is no memory, and then nothing has changed.
///
/// # Safety
///
/// As for [`deallocate`]; `size` rounded up to the alignment must not exceed `isize::MAX`.
pub unsafe fn reallocate(pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let Ok(new) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
    let classes = (class(layout), class(new));
    if classes.0.is_some() && classes.0 == classes.1 {
        return pointer;
    }
    if classes == (None, None) && layout.size() != 0 && size != 0 {
        let masked = Masked::new();
        // SAFETY: the caller's promise; what has no class was allocated with its own layout.
        if HEAP.with(&masked, |heap| unsafe { heap.try_realloc_in_place(pointer, layout, size) }) {
            return pointer;
        }
    }
    let moved = allocate(new);
    if !moved.is_null() {
        // SAFETY: both are as large as what is copied, and the new memory is fresh.
        unsafe { ptr::copy_nonoverlapping(pointer, moved, layout.size().min(size)) };
        // SAFETY: the caller's promise.
        unsafe { deallocate(pointer, layout) };
    }
    moved
}
