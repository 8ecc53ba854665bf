//! The queue registers: a virtqueue as the driver sets it up.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::features::{from_halves, halves};
use crate::devices::virtio::DeviceError;

/// A 64-bit address in two registers of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SplitAddress(u64);

impl SplitAddress {
    /// Writes the low 32 bits.
    pub(super) fn set_low(&mut self, low: u32) {
        self.0 = from_halves(low, halves(self.0).1);
    }

    /// Writes the high 32 bits.
    pub(super) fn set_high(&mut self, high: u32) {
        self.0 = from_halves(halves(self.0).0, high);
    }

    fn address(self) -> GuestAddress {
        GuestAddress(self.0)
    }
}

/// A virtqueue, and the addresses that the driver has written for its parts (virtio 1.2 §2.7).
///
/// The addresses are passed to `virtio-queue` when the driver sets `QueueReady`. They are checked before
/// that, because `virtio-queue` logs every invalid address, so a guest could fill the host's log.
#[derive(Debug)]
pub(super) struct QueueRegisters {
    queue: Queue,
    pub(super) descriptors: SplitAddress,
    pub(super) available: SplitAddress,
    pub(super) used: SplitAddress,
}

impl QueueRegisters {
    /// Creates a virtqueue of at most `max_size` descriptors. It is not ready.
    pub(super) fn new(max_size: u16) -> Result<Self, DeviceError> {
        let [descriptors, available, used] = [SplitAddress::default(); 3];
        Ok(Self { queue: Queue::new(max_size)?, descriptors, available, used })
    }

    /// Returns the virtqueue.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the virtqueue if it is ready.
    pub(super) fn ready_queue(&mut self) -> Option<&mut Queue> {
        self.queue.ready().then_some(&mut self.queue)
    }

    /// Writes `QueueNum`. Ignored unless it is a power of two up to the maximum.
    pub(super) fn set_size(&mut self, size: u32) {
        if let Ok(size) = u16::try_from(size) {
            let _: Result<(), virtio_queue::Error> = self.queue.try_set_size(size);
        }
    }

    /// Enables or disables `VIRTIO_RING_F_EVENT_IDX`.
    pub(super) fn set_event_index(&mut self, enabled: bool) {
        self.queue.set_event_idx(enabled);
    }

    /// Writes 1 to `QueueReady`: fixes addresses and size.
    ///
    /// # Errors
    ///
    /// A part of the queue is misaligned or not in guest memory. The queue does not become ready.
    pub(super) fn start(&mut self, memory: &GuestMemoryMmap) -> Result<(), DeviceError> {
        if !self.is_in_memory(memory) {
            return Err(DeviceError::RingAddress);
        }
        self.queue.try_set_desc_table_address(self.descriptors.address())?;
        self.queue.try_set_avail_ring_address(self.available.address())?;
        self.queue.try_set_used_ring_address(self.used.address())?;
        self.queue.set_ready(true);
        if !self.queue.is_valid(memory) {
            self.queue.set_ready(false);
            return Err(DeviceError::RingAddress);
        }
        Ok(())
    }

    /// Writes 0 to `QueueReady`.
    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    /// Restores the state after a device reset.
    pub(super) fn reset(&mut self) {
        self.queue.reset();
        [self.descriptors, self.available, self.used] = [SplitAddress::default(); 3];
    }

    /// Returns true if all parts are in guest memory. [`Queue::is_valid`] cannot be used, because it logs
    /// each failure.
    fn is_in_memory(&self, memory: &GuestMemoryMmap) -> bool {
        let size = usize::from(self.queue.size());
        // Virtio 1.2 §2.7: a descriptor has 16 bytes; both rings have a header of 4 and an event index of 2
        // bytes.
        let parts =
            [(self.descriptors, 16 * size), (self.available, 6 + 2 * size), (self.used, 6 + 8 * size)];
        parts
            .iter()
            .all(|(start, length)| memory.check_range(start.address(), *length, Permissions::ReadWrite))
    }
}
