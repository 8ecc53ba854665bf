//! Mirrored pages: memory that drivers and devices use in place. It is mapped twice in a row, so that a range
//! which wraps around the end is contiguous.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{Ordering, compiler_fence};

use hermit_interface::to_usize;
use hermit_virtio::dma::DmaPermit;
use hermit_virtio::dma::mirrored::{ExclusiveRange, MirroredAllocator, MirroredMemory};

use super::Allocator;
use crate::memory::{self, MirroredMapping};

impl MirroredAllocator for Allocator {
    type Mirrored = MirroredPages;

    fn allocate_mirrored(&self, size: usize, permit: &DmaPermit) -> Option<MirroredPages> {
        let mapping = memory::map_mirrored(u64::try_from(size).ok()?).ok()?;
        let start = NonNull::new(with_exposed_provenance_mut(to_usize(mapping.address)))?;
        Some(MirroredPages { mapping, start, size, permit: permit.clone() })
    }
}

/// Physically contiguous pages, mapped twice in a row, that are shared with a device.
#[derive(Debug)]
pub struct MirroredPages {
    mapping: MirroredMapping,
    start: NonNull<u8>,
    /// Size of one mapping in bytes.
    size: usize,
    permit: DmaPermit,
}

// SAFETY: the value owns the pages, wherever it is; nothing about them belongs to a thread.
unsafe impl Send for MirroredPages {}
// SAFETY: bytes are accessed only for an `ExclusiveRange`, and no two of these have the same bytes, whichever
// threads own them.
unsafe impl Sync for MirroredPages {}

// SAFETY: the physical address is that of pages that `map_mirrored` has given to this value alone; they are
// freed when it is dropped, unless the permit is granted. `with_bytes` passes the bytes of the range.
unsafe impl MirroredMemory for MirroredPages {
    fn size(&self) -> usize {
        self.size
    }

    fn device_address(&self) -> u64 {
        self.mapping.physical
    }

    fn with_bytes<R>(&self, range: ExclusiveRange<'_>, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let (start, length) = (range.start(), range.length());
        assert!(start < self.size && length <= self.size, "inside of the memory");
        // SAFETY: `start` is less than the size of the first mapping (asserted), which is mapped from
        // `self.start` on.
        let first = unsafe { self.start.add(start) };
        let mut bytes = NonNull::slice_from_raw_parts(first, length);
        // An earlier range may have had the same bytes at their other address, and the compiler does not know
        // that this is the same memory: the fences keep it from moving accesses from one use to another.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the bytes are mapped: they start in the first mapping and end in the second one at the
        // latest (asserted). They are initialised as far as the compiler can know, which has not seen the
        // memory before it was mapped. They are exclusive: `hermit_virtio::dma::mirrored`, which alone
        // creates ranges, creates them for the owner of a span and one borrow of it, and spans do not
        // overlap; so no other range has them at either address. While the device owns bytes, their span is
        // in the queue and there is no range. (A malicious device can write to any memory: there is no
        // IOMMU.)
        let result = action(unsafe { bytes.as_mut() });
        compiler_fence(Ordering::SeqCst);
        result
    }
}

impl Drop for MirroredPages {
    fn drop(&mut self) {
        if self.permit.is_granted() {
            return;
        }
        // SAFETY: all spans share the ownership of this value and were dropped before, so there is no range
        // of these pages. The device does not access them, since it has no permit: it has been reset, or
        // never knew them.
        unsafe { memory::unmap_mirrored(&self.mapping) };
    }
}
