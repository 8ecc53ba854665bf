//! Blocks in [`Spans`], for CPUs that take whole batches of a size class.
//!
//! The first refills of a class by a CPU are small, and come from talc. So a program that has few blocks of
//! many sizes needs no spans, which have 64 KiB each. No new spans are made while little memory is free.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use hermit_interface::to_usize;
use hermit_memory::frames::Words;
use hermit_memory::size_classes;
use hermit_memory::spans::{self, CLASSES, Spans};

use crate::memory::paging;

/// Free memory in bytes below which no new spans are made: a machine with little memory needs it for other
/// sizes.
const MIN_AVAILABLE: u64 = 4 << 20;

/// The spans of the heap.
#[derive(Debug)]
pub(super) struct SpanHeap(Spans);

/// Words of spans and of their bitmap.
#[derive(Debug)]
struct SpanWords;

impl Words for SpanWords {
    #[inline]
    fn read(&self, address: u64) -> u64 {
        let word = with_exposed_provenance::<u64>(to_usize(address));
        // SAFETY: `Spans` reads words of its bitmap, of the headers of spans, and of free blocks in them,
        // after it has written them. All of this is memory that `SpanHeap` has claimed and not freed. It is
        // mapped, the words are aligned, and they are only used under the lock of the heap.
        unsafe { word.read() }
    }

    #[inline]
    fn write(&mut self, address: u64, value: u64) {
        let word = with_exposed_provenance_mut::<u64>(to_usize(address));
        // SAFETY: `Spans` writes words of its bitmap, of the headers of spans, and of blocks that are free or
        // were just freed by their only user. All of this is memory that `SpanHeap` has claimed and not
        // freed. It is mapped, the words are aligned, no Rust reference to them exists, and they are only
        // used under the lock of the heap.
        unsafe { word.write(value) };
    }
}

/// Allocates memory if at least [`MIN_AVAILABLE`] bytes are free. Returns its address.
fn claim(size: u64, align: u64) -> Option<u64> {
    paging::with(|memory| {
        let has_enough = memory.available() >= MIN_AVAILABLE;
        has_enough.then(|| memory.allocate(size, align).ok()).flatten()
    })
}

/// Frees the memory of a span.
#[cold]
#[inline(never)]
fn free_span(span: u64) {
    paging::with(|memory| memory.free(span, spans::SIZE));
}

impl SpanHeap {
    pub(super) const fn new() -> Self {
        Self(Spans::new())
    }

    /// Allocates a block of a size class. `None` if spans have no such blocks, or if there is no memory for
    /// another span.
    #[inline]
    pub(super) fn allocate(&mut self, class: usize) -> Option<NonNull<u8>> {
        let block = match self.0.allocate(&mut SpanWords, class) {
            Some(block) => block,
            None => self.allocate_slow(class)?,
        };
        NonNull::new(with_exposed_provenance_mut(to_usize(block)))
    }

    /// Allocates a block in a new span.
    #[cold]
    #[inline(never)]
    fn allocate_slow(&mut self, class: usize) -> Option<u64> {
        if class >= CLASSES || !(self.0.has_bitmap() || self.claim_bitmap()) {
            return None;
        }
        let span = claim(spans::SIZE, spans::SIZE)?;
        self.0.add(&mut SpanWords, span, class);
        self.0.allocate(&mut SpanWords, class)
    }

    /// Claims memory for the bitmap. Returns false if there is no memory.
    fn claim_bitmap(&mut self) -> bool {
        let memory = paging::with(|memory| memory.direct_addresses());
        // Spans are aligned by their physical addresses.
        if !memory.start.is_multiple_of(spans::SIZE) {
            return false;
        }
        let bitmap = claim(Spans::bitmap_size(memory), 0);
        bitmap.map(|bitmap| self.0.set_bitmap(&mut SpanWords, bitmap, memory)).is_some()
    }

    /// Frees a block. Returns false if the block is not in a span; then nothing has changed.
    ///
    /// # Safety
    ///
    /// The block must come from the heap with this layout, and not be used again.
    #[inline]
    pub(super) unsafe fn free(&mut self, block: *mut u8, layout: Layout) -> bool {
        let block = block.addr() as u64;
        if !self.0.contains(&SpanWords, block) {
            return false;
        }
        let empty =
            size_classes::class(layout.size()).and_then(|class| self.0.free(&mut SpanWords, block, class));
        if let Some(span) = empty {
            free_span(span);
        }
        true
    }

    /// Size of the free blocks in bytes.
    pub(super) fn available(&self) -> usize {
        to_usize(self.0.available())
    }
}
