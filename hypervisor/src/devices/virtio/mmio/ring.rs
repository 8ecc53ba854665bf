//! A queue as the driver sets it up.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::super::DeviceError;
use super::features::{halves, whole};

/// An address that is written in two halves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SplitAddress(u64);

impl SplitAddress {
    /// Replaces the low half.
    pub(super) fn set_low(&mut self, low: u32) {
        self.0 = whole(low, halves(self.0).1);
    }

    /// Replaces the high half.
    pub(super) fn set_high(&mut self, high: u32) {
        self.0 = whole(halves(self.0).0, high);
    }

    fn address(self) -> GuestAddress {
        GuestAddress(self.0)
    }
}

/// A queue and where the driver wants its parts to be (virtio 1.2, section 2.7).
///
/// The addresses count from the moment when the queue starts. Until then they are just numbers: `virtio-queue` would
/// write to the log whenever it meets a bad one.
#[derive(Debug)]
pub(super) struct Ring {
    queue: Queue,
    pub(super) descriptors: SplitAddress,
    pub(super) available: SplitAddress,
    pub(super) used: SplitAddress,
}

impl Ring {
    /// A queue of at most this many descriptors.
    pub(super) fn new(size: u16) -> Result<Self, DeviceError> {
        let [descriptors, available, used] = [SplitAddress::default(); 3];
        Ok(Self { queue: Queue::new(size)?, descriptors, available, used })
    }

    /// The queue.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The queue, if it may be served.
    pub(super) fn running(&mut self) -> Option<&mut Queue> {
        self.queue.ready().then_some(&mut self.queue)
    }

    /// `QueueNum`. Ignored if it is not a power of two up to the maximum.
    pub(super) fn set_size(&mut self, size: u32) {
        if let Ok(size) = u16::try_from(size) {
            let _: Result<(), virtio_queue::Error> = self.queue.try_set_size(size);
        }
    }

    /// See [`Queue::set_event_idx`].
    pub(super) fn set_event_index(&mut self, enabled: bool) {
        self.queue.set_event_idx(enabled);
    }

    /// `QueueReady`: from now on addresses and size cannot be changed.
    ///
    /// # Errors
    ///
    /// A part of the queue is not aligned or not in memory. The queue does not start.
    pub(super) fn start(&mut self, memory: &GuestMemoryMmap) -> Result<(), DeviceError> {
        if !self.is_in_memory(memory) {
            return Err(DeviceError::RingPlacement);
        }
        self.queue.try_set_desc_table_address(self.descriptors.address())?;
        self.queue.try_set_avail_ring_address(self.available.address())?;
        self.queue.try_set_used_ring_address(self.used.address())?;
        self.queue.set_ready(true);
        if !self.queue.is_valid(memory) {
            self.queue.set_ready(false);
            return Err(DeviceError::RingPlacement);
        }
        Ok(())
    }

    /// `QueueReady`: the driver does not want the queue any more.
    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    /// As in the beginning.
    pub(super) fn reset(&mut self) {
        self.queue.reset();
        [self.descriptors, self.available, self.used] = [SplitAddress::default(); 3];
    }

    /// What [`Queue::is_valid`] checks, too; but that writes to the log, which a guest could fill so.
    fn is_in_memory(&self, memory: &GuestMemoryMmap) -> bool {
        let size = usize::from(self.queue.size());
        // Section 2.7: a descriptor has 16 bytes; both rings have a header of 4 and an event index of 2 bytes.
        let parts =
            [(self.descriptors, 16 * size), (self.available, 6 + 2 * size), (self.used, 6 + 8 * size)];
        parts
            .iter()
            .all(|(start, length)| memory.check_range(start.address(), *length, Permissions::ReadWrite))
    }
}
