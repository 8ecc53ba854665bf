//! Mirrored memory. The device's memory in tests consists of vectors, so each access copies the bytes out of
//! it and back.

use std::sync::Mutex;
use std::vec;
use std::vec::Vec;

use super::dma::{FakeDma, FakeMemory};
use crate::dma::mirrored::{ExclusiveRange, MirroredAllocator, MirroredMemory};
use crate::dma::{DmaAllocator, DmaMemory, DmaPermit};

/// Contents of newly allocated memory, which must not leave the guest.
pub(crate) const STALE_BYTE: u8 = 0xa5;

#[derive(Debug)]
pub(crate) struct FakeMirrored {
    memory: FakeMemory,
    /// Bytes of the current access; allocated in advance, so that accesses do not allocate.
    scratch: Mutex<Vec<u8>>,
}

impl MirroredAllocator for FakeDma {
    type Mirrored = FakeMirrored;

    fn allocate_mirrored(&self, size: usize, permit: &DmaPermit) -> Option<FakeMirrored> {
        assert!(size.is_power_of_two() && size >= 4096);
        let memory = self.allocate(size, permit)?;
        memory.write(0, &vec![STALE_BYTE; size]);
        Some(FakeMirrored { memory, scratch: Mutex::new(vec![0; size]) })
    }
}

// SAFETY: the memory is a `FakeMemory`; `with_bytes` passes a copy of the range's bytes.
#[expect(unsafe_code, reason = "the model of the kernel's memory")]
unsafe impl MirroredMemory for FakeMirrored {
    fn size(&self) -> usize {
        self.memory.size()
    }

    fn device_address(&self) -> u64 {
        self.memory.device_address()
    }

    fn with_bytes<R>(&self, range: ExclusiveRange<'_>, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let (start, length) = (range.start(), range.length());
        assert!(start < self.size() && length <= self.size());
        let mut scratch = self.scratch.lock().unwrap();
        let bytes = &mut scratch[..length];
        let (first, second) = bytes.split_at_mut(length.min(self.size() - start));
        self.memory.read(start, first);
        self.memory.read(0, second);
        let result = action(bytes);
        let (first, second) = bytes.split_at(length.min(self.size() - start));
        self.memory.write(start, first);
        self.memory.write(0, second);
        result
    }
}
