//! The memory of a split virtqueue: layout of, and access to, descriptor table, available ring and used ring
//! (virtio 1.2, section 2.7).

use virtio_spec::virtq::{AvailF, DescF, UsedF};

use crate::dma::{DmaAllocator, DmaMemory, DmaPermit, DmaSegment};
use crate::transport::QueueAddresses;

/// Size of a descriptor in bytes (section 2.7.5).
const DESCRIPTOR_SIZE: usize = 16;

/// Size of a used ring element in bytes (section 2.7.8).
const USED_ELEMENT_SIZE: usize = 8;

/// Alignment of the used ring: a cache line, so that the areas written by driver and device do not share one.
/// The specification demands 4 bytes.
const CACHE_LINE: usize = 64;

/// Offsets of `flags`, `idx` and `ring` in the available ring and in the used ring. `used_event` or
/// `avail_event` follows the elements of `ring`.
mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const IDX: usize = 2;
    pub(super) const RING: usize = 4;
}

/// Descriptor table, available ring and used ring in one piece of DMA memory.
///
/// Callers pass descriptor indices below the queue's size.
#[derive(Debug)]
pub(super) struct Vring<M> {
    memory: M,
    /// Number of descriptors, a power of two.
    size: u16,
    /// Offset of the available ring; the descriptor table precedes it.
    available: usize,
    /// Offset of the used ring.
    used: usize,
}

impl<M: DmaMemory> Vring<M> {
    /// Allocates a queue of `size` descriptors, a power of two up to 32768.
    pub(super) fn allocate(
        dma: &impl DmaAllocator<Memory = M>,
        size: u16,
        permit: &DmaPermit,
    ) -> Option<Self> {
        let slots = usize::from(size);
        let available = DESCRIPTOR_SIZE * slots;
        let used = (available + field::RING + 2 * slots + 2).next_multiple_of(CACHE_LINE);
        let end = used + field::RING + USED_ELEMENT_SIZE * slots + 2;
        let memory = dma.allocate(end, permit).filter(|memory| memory.size() >= end)?;
        Some(Self { memory, size, available, used })
    }

    /// Number of descriptors.
    pub(super) const fn size(&self) -> u16 {
        self.size
    }

    /// Size and DMA addresses of the parts.
    pub(super) fn addresses(&self) -> QueueAddresses {
        // Never fails: `usize` has at most 64 bits.
        let at = |offset| self.memory.device_address() + u64::try_from(offset).unwrap_or_default();
        QueueAddresses {
            size: self.size,
            descriptors: at(0),
            driver: at(self.available),
            device: at(self.used),
        }
    }

    /// Position in a ring to which a free-running index refers.
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// Writes a descriptor; `next` is the index of the next one in its chain.
    pub(super) fn set_descriptor(&self, index: u16, segment: DmaSegment, next: Option<u16>) {
        let mut flags = DescF::empty();
        if segment.writable {
            flags |= DescF::WRITE;
        }
        if next.is_some() {
            flags |= DescF::NEXT;
        }
        let mut bytes = [0; DESCRIPTOR_SIZE];
        bytes[..8].copy_from_slice(&segment.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&segment.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.bits().to_le_bytes());
        bytes[14..].copy_from_slice(&next.unwrap_or_default().to_le_bytes());
        self.memory.write(DESCRIPTOR_SIZE * usize::from(index), &bytes);
    }

    /// Writes the head of a chain to the element `index` of the available ring, and sets the ring's index to
    /// `index + 1`. A device that sees the new index also sees all earlier writes.
    pub(super) fn push_available(&self, index: u16, head: u16) {
        let element = self.available + field::RING + 2 * self.slot(index);
        self.memory.write(element, &head.to_le_bytes());
        self.memory.store_release(self.available + field::IDX, index.wrapping_add(1));
    }

    /// Index of the used ring. Later loads see everything that the device wrote before it advanced the index.
    pub(super) fn used_index(&self) -> u16 {
        self.memory.load_acquire(self.used + field::IDX)
    }

    /// Element of the used ring: `id`, the head of a chain, and `len`, the number of bytes written.
    pub(super) fn used_element(&self, index: u16) -> (u32, u32) {
        let mut bytes = [0; USED_ELEMENT_SIZE];
        self.memory.read(self.used + field::RING + USED_ELEMENT_SIZE * self.slot(index), &mut bytes);
        let [a, b, c, d, e, f, g, h] = bytes;
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    }

    /// See [`DmaMemory::fence`].
    pub(super) fn fence(&self) {
        self.memory.fence();
    }

    /// `avail_event`: the index of the available ring at which the device wants a notification.
    pub(super) fn avail_event(&self) -> u16 {
        self.memory.load_acquire(self.used + field::RING + USED_ELEMENT_SIZE * usize::from(self.size))
    }

    /// Returns true if the device has set `VIRTQ_USED_F_NO_NOTIFY`.
    pub(super) fn is_notify_suppressed(&self) -> bool {
        let flags = self.memory.load_acquire(self.used + field::FLAGS);
        flags & UsedF::NO_NOTIFY.bits().to_ne() != 0
    }

    /// Sets `used_event`, the index of the used ring at which the driver wants an interrupt.
    pub(super) fn set_used_event(&self, index: u16) {
        let offset = self.available + field::RING + 2 * usize::from(self.size);
        self.memory.store_release(offset, index);
    }

    /// Sets or clears `VIRTQ_AVAIL_F_NO_INTERRUPT`.
    pub(super) fn suppress_interrupts(&self, suppressed: bool) {
        let flags = if suppressed { AvailF::NO_INTERRUPT } else { AvailF::empty() };
        self.memory.store_release(self.available + field::FLAGS, flags.bits().to_ne());
    }
}
