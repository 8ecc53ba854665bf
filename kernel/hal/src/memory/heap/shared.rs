//! The shared heap: talc, which claims whole pages of the frame allocator as it needs more, and frees them again.

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use talc::base::Talc;
use talc::base::binning::{Binning, DefaultBinning};
use talc::source::Source;

use crate::interrupts::Masked;
use crate::memory::paging;
use crate::sync::MaskedLock;

/// Smallest growth of the heap in bytes.
const GROWTH: usize = 256 << 10;

/// Bytes of a claimed block that talc uses itself: its lists (of the first block), and tags.
const OVERHEAD: usize = 8 << 10;

/// Free bytes at the end of a claimed block from which on most of them are given back.
const EXCESS: usize = 1 << 20;

const PAGE: usize = to_usize(PAGE_SIZE);

/// The allocator of the shared heap.
pub(super) type Heap = Talc<Frames, DefaultBinning>;

static HEAP: MaskedLock<Heap> = MaskedLock::new(Talc::new(Frames));

/// Number of times that [`HEAP`] was locked.
static LOCK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Calls `action` with the shared heap, under its lock.
pub(super) fn with<R>(masked: &Masked, action: impl FnOnce(&mut Heap) -> R) -> R {
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

/// Size of the free blocks of the shared heap in bytes. What CPUs keep is not among them.
#[must_use]
pub fn heap_available() -> u64 {
    with(&Masked::new(), |heap| heap.counters().available_bytes) as u64
}

/// Source of talc's memory: whole pages of the frame allocator.
#[derive(Debug)]
pub(super) struct Frames;

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
