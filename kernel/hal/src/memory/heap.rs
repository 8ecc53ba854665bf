//! The heap: talc over physical memory that it claims as it needs more.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, with_exposed_provenance_mut};

use hermit_interface::to_usize;
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use super::paging;
use crate::sync::RawSpinLock;

/// The heap grows by at least this much.
const GROWTH: usize = 256 << 10;

/// What talc needs of a claimed block for itself: its lists (the first time), and tags.
const OVERHEAD: usize = 8 << 10;

#[global_allocator]
static HEAP: TalcLock<RawSpinLock, Frames> = TalcLock::new(Frames);

/// Gives talc memory.
#[derive(Debug)]
struct Frames;

// SAFETY: `acquire` claims fresh memory and does not use this allocator.
unsafe impl Source for Frames {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let needed =
            layout.size().checked_add(layout.align()).and_then(|size| size.checked_add(OVERHEAD)).ok_or(())?;
        let size = needed.max(GROWTH).checked_next_multiple_of(4096).ok_or(())?;
        let claim =
            |size: usize| paging::with(|memory| memory.allocate(size as u64)).map(|start| (start, size));
        // A machine that is almost full gives what is needed, if not more.
        let (start, size) = claim(size).or_else(|_| claim(needed.next_multiple_of(4096))).map_err(|_| ())?;
        let start = with_exposed_provenance_mut(to_usize(start));
        // SAFETY: the memory was free, is mapped, and is the heap's from now on.
        unsafe { talc.claim(start, size) }.map(|_| ()).ok_or(())
    }
}

/// Allocates; null if there is no memory. A layout of size zero gives a dangling pointer.
#[inline]
#[must_use]
pub fn allocate(layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        return ptr::without_provenance_mut(layout.align());
    }
    // SAFETY: the size is not zero.
    unsafe { HEAP.alloc(layout) }
}

/// Allocates memory filled with zero; null if there is none.
#[inline]
#[must_use]
pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        return ptr::without_provenance_mut(layout.align());
    }
    // SAFETY: the size is not zero.
    unsafe { HEAP.alloc_zeroed(layout) }
}

/// Frees.
///
/// # Safety
///
/// `pointer` must come from this heap, with this layout, and not be used again.
#[inline]
pub unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the caller's promise.
        unsafe { HEAP.dealloc(pointer, layout) };
    }
}

/// Changes the size of an allocation, which may move; null if there is no memory, and then nothing has changed.
///
/// # Safety
///
/// As for [`deallocate`]; `size` rounded up to the alignment must not exceed `isize::MAX`.
#[inline]
pub unsafe fn reallocate(pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    let new = Layout::from_size_align(size, layout.align());
    match (layout.size(), size, new) {
        (_, _, Err(_)) => ptr::null_mut(),
        (0, _, Ok(new)) => allocate(new),
        (_, 0, Ok(_)) => {
            // SAFETY: the caller's promise.
            unsafe { HEAP.dealloc(pointer, layout) };
            ptr::without_provenance_mut(layout.align())
        }
        // SAFETY: the caller's promise; neither size is zero.
        _ => unsafe { HEAP.realloc(pointer, layout, size) },
    }
}
