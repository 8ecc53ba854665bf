//! The memory of a split virtqueue: where its parts are, and accesses to them (virtio 1.2, section 2.7).

use virtio_spec::virtq::{AvailF, DescF, UsedF};

use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::QueueAddresses;

/// Bytes of a descriptor (section 2.7.5).
const DESCRIPTOR: usize = 16;

/// Bytes of an element of the used ring (section 2.7.8).
const USED_ELEMENT: usize = 8;

/// The used ring starts at a multiple of this: a cache line, so that what the driver writes and what the device writes
/// do not share one. The device needs 4.
const LINE: usize = 64;

/// In both rings: flags, index, elements, and after them the other side's event index.
mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const INDEX: usize = 2;
    pub(super) const ELEMENTS: usize = 4;
}

/// The three parts in one piece of memory.
///
/// All slots and heads that its functions are given are below the queue's size.
#[derive(Debug)]
pub(super) struct Vring<M> {
    memory: M,
    /// A power of two.
    size: u16,
    /// Where the available ring starts; the descriptors are before it.
    available: usize,
    /// Where the used ring starts.
    used: usize,
}

impl<M: DmaMemory> Vring<M> {
    /// Memory for a queue of `size` descriptors, a power of two up to 32768.
    pub(super) fn allocate(dma: &impl DmaAllocator<Memory = M>, size: u16) -> Option<Self> {
        let slots = usize::from(size);
        let available = DESCRIPTOR * slots;
        let used = (available + field::ELEMENTS + 2 * slots + 2).next_multiple_of(LINE);
        let end = used + field::ELEMENTS + USED_ELEMENT * slots + 2;
        let memory = dma.allocate(end).filter(|memory| memory.size() >= end)?;
        Some(Self { memory, size, available, used })
    }

    /// How many descriptors there are.
    pub(super) const fn size(&self) -> u16 {
        self.size
    }

    /// What the device is told.
    pub(super) fn addresses(&self) -> QueueAddresses {
        // Never fails where `usize` has 64 bits or fewer.
        let at = |offset| self.memory.device_address() + u64::try_from(offset).unwrap_or_default();
        QueueAddresses {
            size: self.size,
            descriptors: at(0),
            driver: at(self.available),
            device: at(self.used),
        }
    }

    /// The slot of a ring for a running index.
    fn slot(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// Writes a descriptor; `next` is the one after it in its chain.
    pub(super) fn set_descriptor(&self, index: u16, segment: DmaSegment, next: Option<u16>) {
        let mut flags = DescF::empty();
        if segment.writable {
            flags |= DescF::WRITE;
        }
        if next.is_some() {
            flags |= DescF::NEXT;
        }
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&segment.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&segment.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.bits().to_le_bytes());
        bytes[14..].copy_from_slice(&next.unwrap_or_default().to_le_bytes());
        self.memory.write(DESCRIPTOR * usize::from(index), &bytes);
    }

    /// Offers a chain, as number `index` of all ever offered. The device sees whatever was written before.
    pub(super) fn offer(&self, index: u16, head: u16) {
        let element = self.available + field::ELEMENTS + 2 * self.slot(index);
        self.memory.write(element, &head.to_le_bytes());
        self.memory.store_release(self.available + field::INDEX, index.wrapping_add(1));
    }

    /// How many chains the device says to have used. What it has written for them can be read after this.
    pub(super) fn used_index(&self) -> u16 {
        self.memory.load_acquire(self.used + field::INDEX)
    }

    /// The head of a used chain and how many bytes were written, as the device says.
    pub(super) fn used_element(&self, index: u16) -> (u32, u32) {
        let mut bytes = [0; USED_ELEMENT];
        self.memory.read(self.used + field::ELEMENTS + USED_ELEMENT * self.slot(index), &mut bytes);
        let [a, b, c, d, e, f, g, h] = bytes;
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    }

    /// See [`DmaMemory::fence`].
    pub(super) fn fence(&self) {
        self.memory.fence();
    }

    /// Where the device wants to be notified: `avail_event`.
    pub(super) fn notify_event(&self) -> u16 {
        self.memory.load_acquire(self.used + field::ELEMENTS + USED_ELEMENT * usize::from(self.size))
    }

    /// Whether the device does not want to be notified at all.
    pub(super) fn is_notify_refused(&self) -> bool {
        let flags = self.memory.load_acquire(self.used + field::FLAGS);
        flags & UsedF::NO_NOTIFY.bits().to_ne() != 0
    }

    /// Where the driver wants an interrupt: `used_event`.
    pub(super) fn set_interrupt_event(&self, index: u16) {
        let offset = self.available + field::ELEMENTS + 2 * usize::from(self.size);
        self.memory.store_release(offset, index);
    }

    /// Whether the driver does not want interrupts at all.
    pub(super) fn refuse_interrupts(&self, refused: bool) {
        let flags = if refused { AvailF::NO_INTERRUPT } else { AvailF::empty() };
        self.memory.store_release(self.available + field::FLAGS, flags.bits().to_ne());
    }
}
