//! talc as the shared heap, with [spans](SpanHeap) for CPUs that take whole batches of a size class. Both
//! return unused pages to the frame allocator.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use talc::base::binning::{Binning, DefaultBinning};
use talc::source::Source;

use super::PageHeap;
use super::spans::SpanHeap;
use crate::memory::heap::pages::{self, GROWTH, PAGE};
use crate::memory::paging;

/// Bytes of a claimed block that talc uses itself: tags, and in the first block its lists.
const OVERHEAD: usize = 8 << 10;

/// Minimum number of free bytes at the end of a claimed block for which talc gives most of them back.
const EXCESS: usize = 1 << 20;

/// The allocator.
#[derive(Debug)]
pub(in crate::memory::heap) struct Talc {
    talc: talc::base::Talc<Pages, DefaultBinning>,
    spans: SpanHeap,
}

// SAFETY: talc allocates blocks of memory that `Pages` has claimed for it, of the size and alignment of the
// layout, which do not overlap; its errors are values. Its source allocates from the frame allocator, not
// from the heap. `SpanHeap` allocates blocks of other memory, and frees those that lie in it alone.
unsafe impl PageHeap for Talc {
    const NEW: Self = Self { talc: talc::base::Talc::new(Pages), spans: SpanHeap::new() };

    unsafe fn try_allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero (contract).
        unsafe { self.talc.try_allocate(layout) }
    }

    unsafe fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero (contract).
        unsafe { self.talc.allocate(layout) }
    }

    #[inline]
    fn allocate_in_span(&mut self, class: usize) -> Option<NonNull<u8>> {
        self.spans.allocate(class)
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: the block comes from this heap with this layout, and is not used again (contract).
        if !unsafe { self.spans.free(block, layout) } {
            // SAFETY: the block lies in no span, so it comes from talc with this layout; it is not used again
            // (contract).
            unsafe { self.deallocate_by_talc(block, layout) }
        }
    }

    unsafe fn try_resize_in_place(&mut self, block: *mut u8, layout: Layout, size: usize) -> bool {
        // SAFETY: blocks that lists keep are not resized, and spans have no others. So the block comes from
        // talc with this layout; the size is not zero (contract).
        unsafe { self.talc.try_realloc_in_place(block, layout, size) }
    }

    fn available(&self) -> usize {
        self.talc.counters().available_bytes + self.spans.available()
    }
}

impl Talc {
    /// Frees a block that is not in a span. Not inlined, so that the path for blocks in spans needs few
    /// registers.
    ///
    /// # Safety
    ///
    /// The block must come from talc with this layout, and not be used again.
    #[inline(never)]
    unsafe fn deallocate_by_talc(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: as required by this function.
        unsafe { self.talc.deallocate(block, layout) }
    }
}

/// Source of talc's memory.
#[derive(Debug)]
struct Pages;

// SAFETY: `acquire` claims memory that the frame allocator has just handed out, and allocates nothing from
// the heap meanwhile. `resize` returns an end inside of the block, and frees only what lies beyond it.
unsafe impl Source for Pages {
    fn acquire<B: Binning>(talc: &mut talc::base::Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let needed =
            layout.size().checked_add(layout.align()).and_then(|size| size.checked_add(OVERHEAD)).ok_or(())?;
        let (start, size) = pages::claim(needed).ok_or(())?;
        // SAFETY: the memory was free and is mapped and writable. It belongs to talc from now on, until
        // `resize` frees it.
        unsafe { talc.claim(with_exposed_provenance_mut(start), size) }.map(|_| ()).ok_or(())
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
