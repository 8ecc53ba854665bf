//! The memory that a starting driver allocates.

use alloc::sync::Arc;
use core::cell::Cell;
use core::fmt::{self, Display};

use hermit_hal::devices::{Allocator, MirroredPages, Pages};
use hermit_hal::memory;
use hermit_virtio::dma::mirrored::MirroredAllocator;
use hermit_virtio::dma::{DmaAllocator, DmaPermit};

/// The hal's allocator for one driver. It remembers the last allocation that failed.
#[derive(Debug, Default)]
pub(super) struct DriverMemory {
    /// Size in bytes of the last block that could not be allocated; 0 if all could.
    refused: Cell<usize>,
}

impl DriverMemory {
    fn note<V>(&self, size: usize, allocated: Option<V>) -> Option<V> {
        if allocated.is_none() {
            self.refused.set(size);
        }
        allocated
    }

    /// Returns the memory that the driver lacks. Called after an initialisation that has failed for lack of
    /// memory.
    pub(super) const fn shortage(&self) -> Shortage {
        Shortage { refused: self.refused.get() }
    }
}

impl DmaAllocator for DriverMemory {
    type Memory = Pages;

    fn allocate(&self, size: usize, permit: &DmaPermit) -> Option<Pages> {
        self.note(size, Allocator.allocate(size, permit))
    }

    fn share<V>(&self, value: V) -> Option<Arc<V>> {
        Allocator.share(value)
    }
}

impl MirroredAllocator for DriverMemory {
    type Mirrored = MirroredPages;

    fn allocate_mirrored(&self, size: usize, permit: &DmaPermit) -> Option<MirroredPages> {
        self.note(size, Allocator.allocate_mirrored(size, permit))
    }
}

/// The memory that a driver lacks. It is displayed as text for users.
#[derive(Debug)]
pub(super) struct Shortage {
    refused: usize,
}

impl Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = memory::available().saturating_sub(memory::RESERVE) / 1024;
        write!(formatter, "out of memory: {free} KiB are free")?;
        if self.refused != 0 {
            write!(formatter, ", and it needs {} KiB in one piece", self.refused.div_ceil(1024))?;
        }
        Ok(())
    }
}
