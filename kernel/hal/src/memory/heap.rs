//! The heap: talc over physical memory that it claims as it needs more and gives back, below a CPU's own free blocks.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull, with_exposed_provenance_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_memory::size_classes;
use spin::Once;
use talc::base::Talc;
use talc::base::binning::{Binning, DefaultBinning};
use talc::source::Source;

use super::cache::List;
use super::{large, paging};
use crate::arch::local;
use crate::interrupts::Masked;
use crate::sync::MaskedLock;

/// The heap grows by at least this much.
const GROWTH: usize = 256 << 10;

/// What talc needs of a claimed block for itself: its lists (the first time), and tags.
const OVERHEAD: usize = 8 << 10;

/// If so much is free at the end of a claimed block, most of it is given back.
const EXCESS: usize = 1 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

type Heap = Talc<Frames, DefaultBinning>;

static HEAP: MaskedLock<Heap> = MaskedLock::new(Talc::new(Frames));

/// How often [`HEAP`] was locked.
static LOCK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Calls `action` with what all CPUs share.
fn shared<R>(masked: &Masked, action: impl FnOnce(&mut Heap) -> R) -> R {
    HEAP.with(masked, |heap| {
        // Only changed under the lock.
        LOCK_COUNT.store(LOCK_COUNT.load(Relaxed) + 1, Relaxed);
        action(heap)
    })
}

/// How often the lock that all CPUs share was taken.
#[must_use]
pub fn heap_lock_count() -> u64 {
    LOCK_COUNT.load(Relaxed)
}

/// What gives back memory that is kept for later.
static RECLAIM: Once<fn()> = Once::new();

/// What `Box` and `Vec` of the kernel use.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[derive(Debug)]
struct Allocator;

// SAFETY: `allocate` returns fresh memory for the layout, or null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocate(layout.size(), layout.align())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { deallocate(pointer, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { reallocate(pointer, layout.size(), layout.align(), size) }
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
            |size: usize| paging::with(|memory| memory.allocate(size as u64, 0)).map(|start| (start, size));
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

/// Whether it is better not to bother talc: it searches long for such sizes, and never finds some.
#[inline]
const fn is_large(size: usize) -> bool {
    size >= large::LEAST
}

/// Whether a CPU keeps free blocks that suit.
#[inline]
const fn is_cached(size: usize, align: usize) -> bool {
    align <= size_classes::ALIGN && size <= size_classes::MAX_SIZE
}

/// Allocates; null if there is no memory, or if size and alignment are not those of a layout. A size of zero gives a
/// dangling pointer.
#[inline]
#[must_use]
pub fn allocate(size: usize, align: usize) -> *mut u8 {
    if align <= size_classes::ALIGN
        && let Some(class) = size_classes::small_class(size)
    {
        let masked = Masked::new();
        if let Some(block) = local::current().caches.small_list(class).pop() {
            return block.as_ptr();
        }
        drop(masked);
    }
    allocate_more(size, align)
}

/// For blocks that are not small, or if this CPU has none.
#[inline(never)]
fn allocate_more(size: usize, align: usize) -> *mut u8 {
    if is_cached(size, align)
        && let Some(block) = pop(size_classes::class(size))
    {
        return block.as_ptr();
    }
    allocate_slowly(size, align)
}

/// Takes a block that this CPU keeps, if it has one.
#[inline]
fn pop(class: usize) -> Option<NonNull<u8>> {
    let _masked = Masked::new();
    // A size of zero has no list.
    local::current().caches.list(class)?.pop()
}

/// When this CPU has no block.
#[cold]
fn allocate_slowly(size: usize, align: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size, align) else { return ptr::null_mut() };
    if size == 0 {
        return ptr::without_provenance_mut(align);
    }
    let take =
        || if is_cached(size, align) { refill(size_classes::class(size)) } else { allocate_shared(layout) };
    let block = take().or_else(|| {
        // Perhaps somebody keeps memory that can be given back.
        RECLAIM.get().filter(|_| crate::interrupts::are_unmasked()).and_then(|reclaim| {
            reclaim();
            take()
        })
    });
    block.map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Says what gives back memory that is kept for later, with [`super::reclaim`]; the first one counts. It is called without
/// any lock held.
pub fn set_reclaim(reclaim: fn()) {
    RECLAIM.call_once(|| reclaim);
}

/// The layout of all blocks of a class.
fn layout_of(class: usize) -> Option<Layout> {
    Layout::from_size_align(size_classes::size(class), size_classes::ALIGN).ok()
}

/// Takes blocks from the heap; returns one of them.
fn refill(class: usize) -> Option<NonNull<u8>> {
    let layout = layout_of(class)?;
    let masked = Masked::new();
    let list = local::current().caches.list(class)?;
    let more = list.next_batch(class) - 1;
    shared(&masked, |heap| {
        // SAFETY: the size is not zero.
        let block = unsafe { heap.allocate(layout) }?;
        for _ in 0..more {
            // Only what the heap has: it need not grow for blocks that nobody has asked for.
            // SAFETY: the size is not zero.
            let Some(block) = (unsafe { heap.try_allocate(layout) }) else { break };
            // SAFETY: the block is fresh and has the class's layout.
            unsafe { list.push(block) };
        }
        Some(block)
    })
}

/// Gives blocks of a list back to the heap.
#[cold]
fn drain(masked: &Masked, list: &List, class: usize, count: usize) {
    let Some(layout) = layout_of(class) else { return };
    shared(masked, |heap| {
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
fn allocate_shared(layout: Layout) -> Option<NonNull<u8>> {
    if is_large(layout.size()) {
        return large::allocate(layout);
    }
    let masked = Masked::new();
    // SAFETY: the size is not zero (checked by the caller).
    shared(&masked, |heap| unsafe { heap.allocate(layout) })
}

/// As [`allocate`], but the memory is filled with zero.
#[inline]
#[must_use]
pub fn allocate_zeroed(size: usize, align: usize) -> *mut u8 {
    let pointer = allocate(size, align);
    if !pointer.is_null() {
        // SAFETY: the memory was just allocated with this size.
        unsafe { pointer.write_bytes(0, size) };
    }
    pointer
}

/// Frees.
///
/// # Safety
///
/// `pointer` must come from this heap, with this size and alignment, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, size: usize, align: usize) {
    if align <= size_classes::ALIGN
        && let Some(class) = size_classes::small_class(size)
    {
        let masked = Masked::new();
        let list = local::current().caches.small_list(class);
        // SAFETY: the caller's promise: what was allocated is not null.
        let block = unsafe { NonNull::new_unchecked(pointer) };
        // SAFETY: the caller's promise; a size has the same class when it is freed as when it was allocated.
        let has_room = unsafe { list.push(block) };
        if has_room {
            return;
        }
        return drain(&masked, list, class, size_classes::batch(class));
    }
    // SAFETY: the caller's promise.
    unsafe { deallocate_more(pointer, size, align) };
}

/// For blocks that are not small.
///
/// # Safety
///
/// As for [`deallocate`].
#[inline(never)]
unsafe fn deallocate_more(pointer: *mut u8, size: usize, align: usize) {
    if is_cached(size, align)
        && let Some(block) = NonNull::new(pointer)
    {
        let class = size_classes::class(size);
        let masked = Masked::new();
        // A size of zero has no list.
        let Some(list) = local::current().caches.list(class) else { return };
        // SAFETY: the caller's promise; a size has the same class when it is freed as when it was allocated.
        if !unsafe { list.push(block) } {
            drain(&masked, list, class, size_classes::batch(class));
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { deallocate_shared(pointer, size, align) };
}

/// # Safety
///
/// As for [`deallocate`].
#[cold]
unsafe fn deallocate_shared(pointer: *mut u8, size: usize, align: usize) {
    let Ok(layout) = Layout::from_size_align(size, align) else { return };
    if is_large(size) {
        // SAFETY: the caller's promise.
        return unsafe { large::deallocate(pointer, size) };
    }
    if size != 0 {
        let masked = Masked::new();
        // SAFETY: the caller's promise; what is not cached was allocated with its own layout.
        shared(&masked, |heap| unsafe { heap.deallocate(pointer, layout) });
    }
}

/// Changes the size of an allocation from `old`, which may move; null if there is no memory, and then nothing has changed.
///
/// # Safety
///
/// As for [`deallocate`].
pub unsafe fn reallocate(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    let cached = [old, size].map(|size| is_cached(size, align));
    if cached == [true, true] && size_classes::class(old) == size_classes::class(size) {
        return pointer;
    }
    if cached == [false, false]
        && let Ok(layout) = Layout::from_size_align(old, align)
        && Layout::from_size_align(size, align).is_ok()
        && old.min(size) != 0
        && is_large(old) == is_large(size)
    {
        if is_large(old) {
            // SAFETY: the caller's promise.
            if unsafe { large::resize(pointer, old, size) } {
                return pointer;
            }
            // SAFETY: the caller's promise.
            return unsafe { move_to(pointer, old, align, size) };
        }
        let masked = Masked::new();
        // SAFETY: the caller's promise; what is not cached was allocated with its own layout.
        if shared(&masked, |heap| unsafe { heap.try_realloc_in_place(pointer, layout, size) }) {
            return pointer;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { move_to(pointer, old, align, size) }
}

/// Moves an allocation to where there is room.
///
/// # Safety
///
/// As for [`reallocate`].
unsafe fn move_to(pointer: *mut u8, old: usize, align: usize, size: usize) -> *mut u8 {
    let moved = allocate(size, align);
    if !moved.is_null() {
        // SAFETY: both are as large as what is copied, and the new memory is fresh.
        unsafe { ptr::copy_nonoverlapping(pointer, moved, old.min(size)) };
        // SAFETY: the caller's promise.
        unsafe { deallocate(pointer, old, align) };
    }
    moved
}
