//! Free blocks of the CPUs ([`crate::cpu_local::free_blocks`]): how they come from the shared heap, in batches, and go
//! back to it.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_interface::to_usize;
use hermit_memory::size_classes;

use super::shared;
use crate::backoff::Backoff;
use crate::cpu_local;
use crate::cpu_local::free_blocks::{FreeList, ListOffset};
use crate::interrupts::{self, Masked};
use crate::ops;

/// Whether this CPU has a free block of a size in bytes, aligned as for each type of an alignment of at most 16 bytes: the next
/// allocation of that size, while interrupts are masked, cannot fail.
#[inline]
#[must_use]
pub fn has_free_block(masked: &Masked, size: usize) -> bool {
    let _ = masked;
    let list = ListOffset::of(size).and_then(|list| cpu_local::current().free_blocks.list(list));
    list.is_some_and(|list| !list.is_empty())
}

/// Layout of the blocks of a size class.
fn layout_of(class: usize) -> Option<Layout> {
    Layout::from_size_align(size_classes::size(class), size_classes::ALIGN).ok()
}

/// Maximum number of blocks that are allocated or freed while the lock of the shared heap is held, which bounds how
/// long other CPUs wait for it.
const MAX_LOCKED: u32 = 16;

/// Moves a batch of blocks from the shared heap to this CPU; returns one of them.
pub(super) fn refill(list: ListOffset) -> Option<NonNull<u8>> {
    let class = list.class();
    let layout = layout_of(class)?;
    let masked = Masked::new();
    let list = cpu_local::current().free_blocks.list(list)?;
    let add = |heap: &mut shared::Heap, count| {
        // The heap does not grow for blocks that are taken in advance.
        // SAFETY: the blocks of every size class have at least 16 bytes; talc demands a size that is not zero.
        let in_advance = || unsafe { heap.try_allocate(layout) };
        // SAFETY: talc has just allocated the blocks, with the layout of the list's class.
        unsafe { list.refill(count, in_advance) }
    };
    let (block, mut left) = shared::with(&masked, |heap| {
        // SAFETY: the blocks of every size class have at least 16 bytes; talc demands a size that is not zero.
        let block = unsafe { heap.allocate(layout) }?;
        let batch = list.next_batch(class) - 1;
        let count = batch.min(MAX_LOCKED - 1);
        Some((block, if add(heap, count) { batch - count } else { 0 }))
    })?;
    while left > 0 {
        let count = left.min(MAX_LOCKED);
        left = if shared::with(&masked, |heap| add(heap, count)) { left - count } else { 0 };
    }
    Some(block)
}

/// Moves a batch of blocks of a list, which is full, to the shared heap.
#[cold]
#[inline(never)]
pub(super) fn drain_full(masked: Masked, list: ListOffset) {
    if let Some(free) = cpu_local::current().free_blocks.list(list) {
        drain(&masked, free, list.class(), size_classes::batch(list.class()));
    }
}

/// Moves up to `count` blocks of a list to the shared heap.
fn drain(masked: &Masked, list: &FreeList, class: usize, count: usize) {
    let Some(layout) = layout_of(class) else { return };
    let mut blocks = core::iter::from_fn(|| list.pop()).take(count).peekable();
    while blocks.peek().is_some() {
        shared::with(masked, |heap| {
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
pub(in crate::memory) fn drain_caches() {
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
