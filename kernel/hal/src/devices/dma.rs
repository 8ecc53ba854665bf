//! Memory that is shared with devices: DMA pages.

use alloc::sync::Arc;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicU16, Ordering};

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_virtio::dma::{DmaAllocator, DmaMemory, DmaPermit};

use crate::arch::copy::copy;
use crate::{memory, try_alloc};

/// Allocator of memory that is shared with devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

impl DmaAllocator for Allocator {
    type Memory = Pages;

    fn allocate(&self, size: usize, permit: &DmaPermit) -> Option<Pages> {
        let size = u64::try_from(size).ok()?.checked_next_multiple_of(PAGE_SIZE)?;
        let (address, physical) = memory::allocate_pages(size).ok()?;
        let start = NonNull::new(with_exposed_provenance_mut::<u8>(to_usize(address)))?;
        let pages = Pages { start, physical, size: to_usize(size), permit: permit.clone() };
        // SAFETY: `allocate_pages` returns mapped pages of this size that have no other user; the device does
        // not know of them yet.
        unsafe { start.write_bytes(0, pages.size) };
        Some(pages)
    }

    fn share<V>(&self, value: V) -> Option<Arc<V>> {
        try_alloc::arc(value)
    }
}

/// Physically contiguous pages that are shared with a device. Their bytes are only ever copied; no Rust
/// reference to them exists, except as atomics.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    physical: u64,
    size: usize,
    permit: DmaPermit,
}

// SAFETY: the value owns the pages, wherever it is; nothing about them belongs to a thread.
unsafe impl Send for Pages {}
// SAFETY: every access through a shared reference is an atomic or a `copy`, which may race with others.
unsafe impl Sync for Pages {}

impl Pages {
    /// Address of the `size` bytes at an offset.
    ///
    /// # Panics
    ///
    /// If they are not all inside of the pages.
    fn bytes(&self, offset: usize, size: usize) -> NonNull<u8> {
        let end = offset.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.size), "inside of the memory");
        // SAFETY: `offset` is at most the size of the pages (asserted), which are one allocation from `start`
        // on.
        unsafe { self.start.add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU16 {
        let word = self.bytes(offset, 2).cast::<AtomicU16>();
        assert!(word.is_aligned(), "words are aligned");
        // SAFETY: the word is inside of the pages (`bytes`), aligned (asserted) and initialised (`allocate`
        // fills with zero). The pages live as long as `self`, and all other accesses are atomics or copies
        // that the compiler does not see.
        unsafe { word.as_ref() }
    }
}

// SAFETY: the physical address is that of pages that `allocate_pages` has given to this value alone; they are
// freed when it is dropped, unless the permit is granted.
unsafe impl DmaMemory for Pages {
    fn size(&self) -> usize {
        self.size
    }

    fn device_address(&self) -> u64 {
        self.physical
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.bytes(offset, bytes.len());
        // SAFETY: the source is inside of the pages (`bytes`); the target is an exclusive slice of the same
        // length.
        unsafe { copy(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.bytes(offset, bytes.len());
        // SAFETY: the target is inside of the pages (`bytes`), whose other accesses are atomics and copies;
        // the source is a slice of the same length.
        unsafe { copy(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }

    fn load_acquire(&self, offset: usize) -> u16 {
        self.word(offset).load(Acquire)
    }

    fn store_release(&self, offset: usize, value: u16) {
        self.word(offset).store(value, Release);
    }

    fn fence(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.permit.is_granted() {
            return;
        }
        memory::free_pages(self.start.addr().get() as u64, self.size as u64);
    }
}
