//! The seam to memory that driver and device share; the hal implements it. And buffers in it, which have one owner.

pub mod arena;

use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::Range;
use core::sync::atomic::{Ordering, fence};

/// Memory that a device may read and change at any time: bytes are copied in and out, there are never references to it.
///
/// The hal implements it over physically contiguous pages and must be sound whatever the device does and whoever calls:
/// a copy that races with the device, or with another copy, gives any bytes, but no undefined behaviour.
///
/// Callers stay inside of the memory. An implementation need not do more than make sure that it touches nothing else if
/// they do not: it may panic. Drivers can go from thread to thread if the memory is `Send` and `Sync`.
///
/// When the value is dropped the pages may be used anew; this crate has reset the device before that.
pub trait DmaMemory: Debug {
    /// Bytes.
    fn size(&self) -> usize;

    /// The address of the first byte as devices see it: the physical one, there is no IOMMU.
    fn device_address(&self) -> u64;

    /// Copies out of memory. Any widths of accesses will do.
    fn read(&self, offset: usize, bytes: &mut [u8]);

    /// Copies into memory. Any widths of accesses will do.
    fn write(&self, offset: usize, bytes: &[u8]);

    /// Loads 16 bits, little-endian, in one access; later accesses of this CPU do not come before it (acquire).
    ///
    /// `offset` is even.
    fn load_acquire(&self, offset: usize) -> u16;

    /// Stores 16 bits, little-endian, in one access; earlier accesses of this CPU do not come after it (release).
    ///
    /// `offset` is even.
    fn store_release(&self, offset: usize, value: u16);

    /// No access to memory crosses this, not even a load an earlier store.
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Gives out memory for devices. The hal implements it; drivers call it only when they are made.
pub trait Dma {
    /// What it gives out.
    type Memory: DmaMemory;

    /// At least `size` bytes, zeroed, physically contiguous, at the start of a page; `None` if there is no such memory.
    fn allocate(&self, size: usize) -> Option<Self::Memory>;
}

/// A part of [`DmaMemory`] that has one owner.
///
/// Whoever has the value may access its bytes. To hand the bytes to the device the value itself goes into a
/// [`Queue`](crate::queue::Queue), and comes back when the device has used them: use after submission cannot be
/// written.
#[derive(Debug)]
pub struct Buffer<M> {
    memory: Arc<M>,
    start: usize,
    size: usize,
}

impl<M: DmaMemory> Buffer<M> {
    /// New memory, zeroed; `None` if there is none, or if descriptors could not describe it (4 GiB or more).
    pub fn allocate(dma: &impl Dma<Memory = M>, size: usize) -> Option<Self> {
        u32::try_from(size).ok()?;
        let memory = dma.allocate(size).filter(|memory| memory.size() >= size)?;
        Some(Self { memory: Arc::new(memory), start: 0, size })
    }

    /// Cuts it into parts of `size` bytes; what is left over at the end is lost.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn split(self, size: usize) -> impl ExactSizeIterator<Item = Self> {
        let Self { memory, start, size: whole } = self;
        (0..whole / size).map(move |index| Self { memory: memory.clone(), start: start + index * size, size })
    }

    /// Bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Copies bytes out, as many as there are from `offset` on and as fit; returns how many.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let length = bytes.len().min(self.size.saturating_sub(offset));
        if let Some(bytes) = bytes.get_mut(..length).filter(|bytes| !bytes.is_empty()) {
            self.memory.read(self.start + offset, bytes);
        }
        length
    }

    /// Copies bytes in, as many as there is room for from `offset` on; returns how many.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.size.saturating_sub(offset));
        if let Some(bytes) = bytes.get(..length).filter(|bytes| !bytes.is_empty()) {
            self.memory.write(self.start + offset, bytes);
        }
        length
    }

    /// A part of it for the device to read.
    #[must_use]
    pub fn readable(&self, range: Range<usize>) -> Segment {
        self.segment(range, false)
    }

    /// A part of it for the device to write.
    #[must_use]
    pub fn writable(&self, range: Range<usize>) -> Segment {
        self.segment(range, true)
    }

    /// A part of it, cut off at its end.
    fn segment(&self, range: Range<usize>, writable: bool) -> Segment {
        let end = range.end.min(self.size);
        let start = range.start.min(end);
        // Neither conversion fails: `allocate` takes less than 4 GiB.
        let offset = u64::try_from(self.start + start).unwrap_or_default();
        let length = u32::try_from(end - start).unwrap_or_default();
        Segment { address: self.memory.device_address() + offset, length, writable }
    }
}

/// What a descriptor says: a part of a [`Buffer`], and in which direction data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) writable: bool,
}
