//! Memory that drivers and devices use in place: it is mapped twice, so that nothing ever ends in the middle.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{Ordering, compiler_fence};

use hermit_interface::to_usize;
use hermit_virtio::dma::mirrored::{ExclusiveRange, MirroredAllocator, MirroredMemory};

use super::Allocator;
use crate::memory::{self, Twice};

impl MirroredAllocator for Allocator {
    type Mirrored = Mirror;

    fn allocate_mirrored(&self, size: usize) -> Option<Mirror> {
        let pages = memory::map_twice(u64::try_from(size).ok()?).ok()?;
        let start = NonNull::new(with_exposed_provenance_mut(to_usize(pages.address)))?;
        Some(Mirror { pages, start, size })
    }
}

/// Pages in one piece, mapped twice in a row, that nobody else has but a device.
#[derive(Debug)]
pub struct Mirror {
    pages: Twice,
    start: NonNull<u8>,
    /// Of one copy.
    size: usize,
}

// SAFETY: the pages are the value's alone; who may use which of them is said by places, not by threads.
unsafe impl Send for Mirror {}
// SAFETY: as above.
unsafe impl Sync for Mirror {}

impl MirroredMemory for Mirror {
    fn size(&self) -> usize {
        self.size
    }

    fn device_address(&self) -> u64 {
        self.pages.physical
    }

    fn with_bytes<R>(&self, range: ExclusiveRange<'_>, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let (start, length) = (range.start(), range.length());
        assert!(start < self.size && length <= self.size, "inside of the memory");
        // SAFETY: in the first copy (checked).
        let first = unsafe { self.start.add(start) };
        let mut bytes = NonNull::slice_from_raw_parts(first, length);
        // Another place may have the same bytes at their other address, of which the compiler does not know that it is
        // the same memory: it moves no access from one use to another.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: mapped (it ends in the second copy at the latest); what is there are bytes, for the compiler knows nothing of
        // what was there before it was mapped. Nobody else uses them at either address: there is a place only for the owner of their span, who does not lend it to two, and spans
        // do not overlap (`hermit_virtio::dma::mirrored`, which alone makes places). While the device has bytes, their span
        // is in the queue; one that writes to bytes it has given back can write to any memory.
        let result = action(unsafe { bytes.as_mut() });
        compiler_fence(Ordering::SeqCst);
        result
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // SAFETY: the value is gone, and with it all places; the driver has reset the device before.
        unsafe { memory::unmap_twice(&self.pages) };
    }
}
