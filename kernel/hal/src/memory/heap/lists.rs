//! Blocks from free lists of the CPUs ([`crate::cpu_local::free_blocks`]). The lists exchange batches with
//! the shared heap ([`shared`]).

use core::alloc::Layout;
use core::ptr::NonNull;

use hermit_interface::to_usize;
use hermit_memory::size_classes;

use super::shared::{self, PageHeap};
use super::{allocate_slow, deallocate_slow};
use crate::cpu_local;
use crate::cpu_local::free_blocks::{self, FreeList, ListOffset};
use crate::interrupts::Masked;
use crate::memory::host_return;

pub use shared::{heap_available, heap_lock_count};

/// The list of free blocks of this size and alignment; `None` if CPUs have no list for such blocks.
#[inline]
fn list(size: usize, align: usize) -> Option<ListOffset> {
    if align <= size_classes::ALIGN { ListOffset::of(size) } else { None }
}

/// Allocates a block. Returns null if there is no memory, or if size and alignment are not valid for a
/// [`Layout`]. For a size of zero, returns a dangling pointer.
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

/// Allocates a block when the calling CPU has no free block of the size. The size is not zero, and less than
/// that of large blocks.
pub(super) fn allocate_shared(layout: Layout) -> Option<NonNull<u8>> {
    if let Some(list) = list(layout.size(), layout.align()) {
        return refill(list);
    }
    // SAFETY: the size is not zero, which `allocate_slow`, the only caller, has checked.
    shared::with(&Masked::new(), |heap| unsafe { heap.allocate(layout) })
}

/// Frees a block.
///
/// # Safety
///
/// `pointer` must come from this heap, with this size and alignment, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, size: usize, align: usize) {
    let Some(list) = list(size, align) else {
        // SAFETY: the block comes from this heap with this size and alignment, and is not used again (same
        // contract).
        return unsafe { deallocate_slow(pointer, size, align) };
    };
    let masked = Masked::new();
    // SAFETY: the pointer comes from this heap (contract), whose blocks are not null.
    let block = unsafe { NonNull::new_unchecked(pointer) };
    // SAFETY: the block was allocated with this size, so it has the size of this class, and it is not used
    // again (contract).
    let has_room = unsafe { free_blocks::push(list, block) };
    if !has_room {
        drain_full(masked, list);
    }
}

/// Frees a block for which CPUs have no list.
///
/// # Safety
///
/// `block` must come from [`allocate_shared`] with this layout, and not be used again.
pub(super) unsafe fn deallocate_shared(block: *mut u8, layout: Layout) {
    // SAFETY: a block of this size and alignment was allocated from the shared heap with its own layout, and
    // is not used again (contract).
    shared::with(&Masked::new(), |heap| unsafe { heap.deallocate(block, layout) });
}

/// Changes the size of a block in place. Returns false if that is impossible. `size` is not zero, less than
/// that of large blocks, and valid with the alignment of the block.
///
/// # Safety
///
/// `block` must come from this heap with this layout.
pub(super) unsafe fn resize(block: *mut u8, layout: Layout, size: usize) -> bool {
    match [layout.size(), size].map(|size| list(size, layout.align())) {
        [Some(old), Some(new)] => old == new,
        [None, None] => shared::with(&Masked::new(), |heap| {
            // SAFETY: a block of this size and alignment was allocated from the shared heap with `layout`;
            // `size` is valid with its alignment, and not zero (contract).
            unsafe { heap.try_resize_in_place(block, layout, size) }
        }),
        _ => false,
    }
}

/// Returns true if the calling CPU has a free block for `size` bytes, with any alignment up to 16 bytes. Then
/// the next allocation of this size cannot fail while interrupts are masked.
#[inline]
#[must_use]
pub fn has_free_block(masked: &Masked, size: usize) -> bool {
    let _ = masked;
    let list = ListOffset::of(size).and_then(|list| cpu_local::current().heap.list(list));
    list.is_some_and(|list| !list.is_empty())
}

/// Moves all free blocks of this CPU to the shared heap.
#[cold]
pub(super) fn drain(masked: &Masked) {
    for (class, list) in cpu_local::current().heap.lists() {
        drain_list(masked, list, class, usize::MAX);
    }
}

/// Layout of the blocks of a size class.
fn layout_of(class: usize) -> Option<Layout> {
    Layout::from_size_align(size_classes::size(class), size_classes::ALIGN).ok()
}

/// Maximum number of blocks that are allocated or freed while the lock of the shared heap is held, which
/// bounds how long other CPUs wait for it.
const MAX_LOCKED: u32 = 16;

/// Moves a batch of blocks from the shared heap to this CPU. Returns one of the blocks to the caller, and
/// adds the others to the list.
fn refill(list: ListOffset) -> Option<NonNull<u8>> {
    let class = list.class();
    let layout = layout_of(class)?;
    let masked = Masked::new();
    let list = cpu_local::current().heap.list(list)?;
    let batch = list.next_batch(class);
    // The first refills are smaller: a program with few blocks of this class needs no span.
    let is_full_batch = to_usize(batch.into()) == size_classes::batch(class);
    let in_span = |heap: &mut shared::Heap| if is_full_batch { heap.allocate_in_span(class) } else { None };
    let add = |heap: &mut shared::Heap, count| {
        // The heap does not grow for blocks that are taken in advance, except by spans.
        let in_advance = || {
            // SAFETY: the blocks of every size class have at least 16 bytes, so the size is not zero.
            in_span(heap).or_else(|| unsafe { heap.try_allocate(layout) })
        };
        // SAFETY: the heap has just allocated the blocks, with the layout of the list's class.
        unsafe { list.refill(count, in_advance) }
    };
    let (block, mut left) = shared::with(&masked, |heap| {
        // SAFETY: the blocks of every size class have at least 16 bytes, so the size is not zero.
        let block = in_span(heap).or_else(|| unsafe { heap.allocate(layout) })?;
        let left = batch - 1;
        let count = left.min(MAX_LOCKED - 1);
        Some((block, if add(heap, count) { left - count } else { 0 }))
    })?;
    while left > 0 {
        let count = left.min(MAX_LOCKED);
        left = if shared::with(&masked, |heap| add(heap, count)) { left - count } else { 0 };
    }
    Some(block)
}

/// Moves a batch of blocks from a full list to the shared heap.
#[cold]
#[inline(never)]
fn drain_full(masked: Masked, list: ListOffset) {
    if let Some(free) = cpu_local::current().heap.list(list) {
        drain_list(&masked, free, list.class(), size_classes::batch(list.class()));
    }
    drop(masked);
    host_return::notify();
}

/// Moves up to `count` blocks from a list to the shared heap.
fn drain_list(masked: &Masked, list: &FreeList, class: usize, count: usize) {
    let Some(layout) = layout_of(class) else { return };
    let mut blocks = core::iter::from_fn(|| list.pop()).take(count).peekable();
    while blocks.peek().is_some() {
        shared::with(masked, |heap| {
            for block in blocks.by_ref().take(to_usize(MAX_LOCKED.into())) {
                // SAFETY: blocks in the list of a class were allocated with this layout, and only the list
                // referred to them.
                unsafe { heap.deallocate(block.as_ptr(), layout) };
            }
        });
    }
}
