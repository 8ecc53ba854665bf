//! The shared heap, which refills the free lists of all CPUs. It has one lock.

#[cfg(not(feature = "tlsf"))]
mod spans;
#[cfg(not(feature = "tlsf"))]
mod talc;
#[cfg(feature = "tlsf")]
mod tlsf;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::interrupts::Masked;
use crate::sync::MaskedLock;

#[cfg(not(feature = "tlsf"))]
pub(super) use talc::Talc as Heap;
#[cfg(feature = "tlsf")]
pub(super) use tlsf::Tlsf as Heap;

/// An allocator that claims [pages](super::pages) as it needs more.
///
/// # Safety
///
/// Each allocated block must be mapped, have the layout's size and alignment, and overlap no other block
/// until it is freed. Resizing must keep its contents. No function may panic or allocate from the heap.
pub(super) unsafe trait PageHeap {
    /// A heap without memory.
    const NEW: Self;

    /// Allocates a block from memory that was already claimed.
    ///
    /// # Safety
    ///
    /// The size must not be zero.
    unsafe fn try_allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Allocates a block. Claims more memory if necessary.
    ///
    /// # Safety
    ///
    /// The size must not be zero.
    unsafe fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Allocates a block of a size class from a span, which is a piece of memory with only such blocks.
    /// Returns `None` if no span has a free block, and there is no memory for another span.
    fn allocate_in_span(&mut self, class: usize) -> Option<NonNull<u8>> {
        let _ = class;
        None
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The block must come from this heap with this layout, and not be used again.
    unsafe fn deallocate(&mut self, block: *mut u8, layout: Layout);

    /// Changes the size of a block in place. Returns false if that is impossible.
    ///
    /// # Safety
    ///
    /// The block must come from this heap with this layout, and `size` must be valid with its alignment, and
    /// not zero.
    unsafe fn try_resize_in_place(&mut self, block: *mut u8, layout: Layout, size: usize) -> bool;

    /// Size of the free blocks in bytes.
    fn available(&self) -> usize;
}

static HEAP: MaskedLock<Heap> = MaskedLock::new(Heap::NEW);

/// Number of times that [`HEAP`] was locked.
static LOCK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Calls `action` with the shared heap, under its lock.
pub(super) fn with<R>(masked: &Masked, action: impl FnOnce(&mut Heap) -> R) -> R {
    HEAP.with(masked, |heap| {
        // A load and a store are enough, since the counter changes only under the lock.
        LOCK_COUNT.store(LOCK_COUNT.load(Relaxed) + 1, Relaxed);
        action(heap)
    })
}

/// Number of times that the lock of the shared heap was taken.
#[must_use]
pub fn heap_lock_count() -> u64 {
    LOCK_COUNT.load(Relaxed)
}

/// Size of the free blocks of the shared heap in bytes, without the blocks that CPUs keep.
#[must_use]
pub fn heap_available() -> u64 {
    with(&Masked::new(), |heap| heap.available()) as u64
}
