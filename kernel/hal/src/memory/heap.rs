//! The heap: free blocks of each CPU ([`crate::cpu_local::free_blocks`]) above a shared allocator (talc), which
//! claims physical memory as it needs more and frees it again.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull, with_exposed_provenance_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_memory::size_classes;
use spin::Once;
use talc::base::Talc;
use talc::base::binning::{Binning, DefaultBinning};
use talc::source::Source;

use super::{large, paging};
use crate::backoff::Backoff;
use crate::cpu_local;
use crate::cpu_local::free_blocks::FreeList;
use crate::interrupts::{self, Masked};
use crate::ops;
use crate::sync::MaskedLock;

/// Smallest growth of the heap in bytes.
const GROWTH: usize = 256 << 10;

/// Bytes of a claimed block that talc uses itself: its lists (of the first block), and tags.
const OVERHEAD: usize = 8 << 10;

/// Free bytes at the end of a claimed block from which on most of them are given back.
const EXCESS: usize = 1 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

type Heap = Talc<Frames, DefaultBinning>;

static HEAP: MaskedLock<Heap> = MaskedLock::new(Talc::new(Frames));

/// Number of times that [`HEAP`] was locked.
static LOCK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Calls `action` with the shared heap, under its lock.
fn shared<R>(masked: &Masked, action: impl FnOnce(&mut Heap) -> R) -> R {
    HEAP.with(masked, |heap| {
        // Only changed under the lock.
        LOCK_COUNT.store(LOCK_COUNT.load(Relaxed) + 1, Relaxed);
        action(heap)
    })
}

/// Number of times that the lock of the shared heap was taken.
#[must_use]
pub fn heap_lock_count() -> u64 {
    LOCK_COUNT.load(Relaxed)
}

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

/// Source of talc's memory: whole pages of the frame allocator.
#[derive(Debug)]
struct Frames;

// SAFETY: `acquire` claims memory that the frame allocator has just handed out, and allocates nothing from the heap
// meanwhile. `resize` returns an end inside of the block, and frees only what lies beyond it.
unsafe impl Source for Frames {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let needed =
            layout.size().checked_add(layout.align()).and_then(|size| size.checked_add(OVERHEAD)).ok_or(())?;
        let size = needed.max(GROWTH).checked_next_multiple_of(PAGE).ok_or(())?;
        let claim =
            |size: usize| paging::with(|memory| memory.allocate(size as u64, 0)).map(|start| (start, size));
        // If memory is short, the heap grows by what is needed.
        let (start, size) = claim(size).or_else(|_| claim(needed.next_multiple_of(PAGE))).map_err(|_| ())?;
        let start = with_exposed_provenance_mut(to_usize(start));
        // SAFETY: the memory was free and is mapped and writable. It belongs to talc from now on, until `resize`
        // frees it.
        unsafe { talc.claim(start, size) }.map(|_| ()).ok_or(())
    }

    const TRACK_HEAP_END: bool = true;

    unsafe fn resize(&mut self, chunk_base: *mut u8, heap_end: *mut u8, is_heap_base: bool) -> *mut u8 {
        let (base, end) = (chunk_base.addr(), heap_end.addr());
        let (start, new_end) = if is_heap_base {
            // The block starts at the page boundary below its first chunk, which is at most one unit away.
            ((base - 1) / PAGE * PAGE, chunk_base)
        } else if end - base >= EXCESS {
            let start = (base + GROWTH / 2).next_multiple_of(PAGE);
            (start, chunk_base.with_addr(start))
        } else {
            return heap_end;
        };
        // The claimed block ended at a page boundary.
        let size = end.next_multiple_of(PAGE) - start;
        paging::with(|memory| memory.free(start as u64, size as u64));
        new_end
    }
}

/// Whether a block comes straight from the frame allocator: talc searches long for such sizes, and cannot serve the
/// largest.
#[inline]
const fn is_large(size: usize) -> bool {
    size >= large::MIN_SIZE
}

/// Whether CPUs keep free blocks of this size and alignment.
#[inline]
const fn is_cached(size: usize, align: usize) -> bool {
    align <= size_classes::ALIGN && size <= size_classes::MAX_SIZE
}

/// Allocates a block; null if there is no memory, or if size and alignment are not those of a layout. A size of
/// zero gives a dangling pointer.
#[inline]
#[must_use]
pub fn allocate(size: usize, align: usize) -> *mut u8 {
    if align <= size_classes::ALIGN
        && let Some(class) = size_classes::small_class(size)
    {
        let masked = Masked::new();
        if let Some(block) = cpu_local::current().free_blocks.small_list(class).pop() {
            return block.as_ptr();
        }
        drop(masked);
    }
    allocate_more(size, align)
}

/// Allocates a block that is not small, or of which this CPU has none.
#[inline(never)]
fn allocate_more(size: usize, align: usize) -> *mut u8 {
    if is_cached(size, align)
        && let Some(block) = pop(size_classes::class(size))
    {
        return block.as_ptr();
    }
    allocate_slow(size, align)
}

/// Takes a free block of this CPU, if it has one.
#[inline]
fn pop(class: usize) -> Option<NonNull<u8>> {
    let _masked = Masked::new();
    // A size of zero has no list.
    cpu_local::current().free_blocks.list(class)?.pop()
}

/// Allocates a block if this CPU has none.
#[cold]
fn allocate_slow(size: usize, align: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size, align) else { return ptr::null_mut() };
    if size == 0 {
        return ptr::without_provenance_mut(align);
    }
    let take =
        || if is_cached(size, align) { refill(size_classes::class(size)) } else { allocate_shared(layout) };
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
/// It is called when an allocation would fail, with no lock held.
pub fn set_reclaim(reclaim: fn()) {
    RECLAIM.call_once(|| reclaim);
}

/// Layout of the blocks of a size class.
fn layout_of(class: usize) -> Option<Layout> {
    Layout::from_size_align(size_classes::size(class), size_classes::ALIGN).ok()
}

/// Maximum number of blocks that are allocated or freed while the lock of the shared heap is held, which bounds how
/// long other CPUs wait for it.
const MAX_LOCKED: u32 = 16;

/// Moves a batch of blocks from the shared heap to this CPU; returns one of them.
fn refill(class: usize) -> Option<NonNull<u8>> {
    let layout = layout_of(class)?;
    let masked = Masked::new();
    let list = cpu_local::current().free_blocks.list(class)?;
    let add = |heap: &mut Heap, count| {
        // The heap does not grow for blocks that are taken in advance.
        // SAFETY: the blocks of every size class have at least 16 bytes; talc demands a size that is not zero.
        let in_advance = || unsafe { heap.try_allocate(layout) };
        // SAFETY: talc has just allocated the blocks, with the layout of the list's class.
        unsafe { list.refill(count, in_advance) }
    };
    let (block, mut left) = shared(&masked, |heap| {
        // SAFETY: the blocks of every size class have at least 16 bytes; talc demands a size that is not zero.
        let block = unsafe { heap.allocate(layout) }?;
        let batch = list.next_batch(class) - 1;
        let count = batch.min(MAX_LOCKED - 1);
        Some((block, if add(heap, count) { batch - count } else { 0 }))
    })?;
    while left > 0 {
        let count = left.min(MAX_LOCKED);
        left = if shared(&masked, |heap| add(heap, count)) { left - count } else { 0 };
    }
    Some(block)
}

/// Moves up to `count` blocks of a list to the shared heap.
#[cold]
fn drain(masked: &Masked, list: &FreeList, class: usize, count: usize) {
    let Some(layout) = layout_of(class) else { return };
    let mut blocks = core::iter::from_fn(|| list.pop()).take(count).peekable();
    while blocks.peek().is_some() {
        shared(masked, |heap| {
            for block in blocks.by_ref().take(to_usize(MAX_LOCKED.into())) {
                // SAFETY: blocks in the list of a class were allocated with this layout, and only the list referred
                // to them.
                unsafe { heap.deallocate(block.as_ptr(), layout) };
            }
        });
    }
}

/// CPUs that keep free blocks, one bit each.
static CACHING: AtomicU64 = AtomicU64::new(1);

/// CPUs that are to move their free blocks to the shared heap, one bit each.
static DRAIN_REQUESTED: AtomicU64 = AtomicU64::new(0);

/// Includes a secondary CPU, whose interrupts are enabled, in requests for its free blocks.
pub(crate) fn join(cpu: u32) {
    CACHING.fetch_or(1 << cpu, Relaxed);
}

/// Moves all free blocks of this CPU to the shared heap.
#[cold]
fn drain_cache(masked: &Masked) {
    for (class, list) in cpu_local::current().free_blocks.lists() {
        drain(masked, list, class, usize::MAX);
    }
}

/// Moves the free blocks of this CPU to the shared heap if another CPU has requested that: a part of the handler of the
/// reschedule IPI.
#[inline]
pub fn drain_if_requested(masked: &Masked) {
    let own = 1 << masked.cpu();
    if DRAIN_REQUESTED.load(Relaxed) & own != 0 {
        drain_cache(masked);
        DRAIN_REQUESTED.fetch_and(!own, Release);
    }
}

/// Moves the free blocks of all CPUs to the shared heap. If interrupts are masked, only those of this CPU: two CPUs
/// could wait for each other.
pub(super) fn drain_caches() {
    let can_wait = interrupts::are_unmasked();
    let masked = Masked::new();
    drain_cache(&masked);
    if !can_wait {
        return;
    }
    let others = CACHING.load(Relaxed) & !(1 << masked.cpu());
    DRAIN_REQUESTED.fetch_or(others, Release);
    for cpu in (0..u64::BITS).filter(|cpu| others & 1 << cpu != 0) {
        ops::smp().send_reschedule(cpu);
    }
    drop(masked);
    let mut waiting = others;
    let mut backoff = Backoff::default();
    // A CPU that another one requests to drain meanwhile has done so once.
    while waiting != 0 {
        backoff.wait();
        waiting &= DRAIN_REQUESTED.load(Acquire);
    }
}

/// Allocates a block of which CPUs keep no free ones.
fn allocate_shared(layout: Layout) -> Option<NonNull<u8>> {
    if is_large(layout.size()) {
        return large::allocate(layout);
    }
    let masked = Masked::new();
    // SAFETY: the size is not zero, which `allocate_slow`, the only caller, has checked.
    shared(&masked, |heap| unsafe { heap.allocate(layout) })
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
    if align <= size_classes::ALIGN
        && let Some(class) = size_classes::small_class(size)
    {
        let masked = Masked::new();
        let list = cpu_local::current().free_blocks.small_list(class);
        // SAFETY: the pointer comes from this heap (contract), whose blocks are not null.
        let block = unsafe { NonNull::new_unchecked(pointer) };
        // SAFETY: the block was allocated with this size, so it has the size of this class, and it is not used
        // again (contract).
        let has_room = unsafe { list.push(block) };
        if has_room {
            return;
        }
        return drain(&masked, list, class, size_classes::batch(class));
    }
    // SAFETY: the block comes from this heap with this size and alignment, and is not used again (same contract).
    unsafe { deallocate_more(pointer, size, align) };
}

/// Frees a block that is not small.
///
/// # Safety
///
/// The contract of [`deallocate`].
#[inline(never)]
unsafe fn deallocate_more(pointer: *mut u8, size: usize, align: usize) {
    if is_cached(size, align)
        && let Some(block) = NonNull::new(pointer)
    {
        let class = size_classes::class(size);
        let masked = Masked::new();
        // A size of zero has no list.
        let Some(list) = cpu_local::current().free_blocks.list(class) else { return };
        // SAFETY: the block was allocated with this size, so it has the size of this class, and it is not used
        // again (contract).
        if !unsafe { list.push(block) } {
            drain(&masked, list, class, size_classes::batch(class));
        }
        return;
    }
    // SAFETY: the block comes from this heap with this size and alignment, and is not used again (same contract).
    unsafe { deallocate_shared(pointer, size, align) };
}

/// Frees a block of which CPUs keep no free ones.
///
/// # Safety
///
/// The contract of [`deallocate`].
#[cold]
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
        shared(&masked, |heap| unsafe { heap.deallocate(pointer, layout) });
    }
}

/// Changes the size of a block from `old`; the block may move. Null if there is no memory; then nothing has changed.
///
/// # Safety
///
/// `pointer` must come from this heap, with the size `old` and this alignment, and not be used again unless the
/// result is null.
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
        if shared(&masked, |heap| unsafe { heap.try_realloc_in_place(pointer, layout, size) }) {
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
