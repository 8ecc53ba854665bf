//! Memory that driver and device share (DMA), and buffers in it with a single owner; the hal implements the
//! traits.

pub mod mirrored;

use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering, fence};

/// DMA memory that the device may read and change at any time: bytes are copied in and out, no references to
/// them exist.
///
/// The hal implements this trait over physically contiguous pages. An implementation must be sound whatever
/// the device writes, and on any thread: a copy that races with the device, or with another copy, yields
/// arbitrary bytes, but no undefined behaviour.
///
/// Callers pass only ranges inside the memory. For other ranges an implementation may panic, but it must not
/// access anything outside the memory. Drivers can move between threads if the memory is `Send` and `Sync`.
///
/// # Safety
///
/// Drivers, which are safe code, make devices access [`DmaMemory::size`] bytes, beginning at
/// [`DmaMemory::device_address`]. So nothing else may use this memory while the value exists. If the
/// [`DmaPermit`] with which the memory was allocated is granted when the value is dropped, the memory must
/// never be freed.
#[expect(unsafe_code, reason = "declares a contract on which memory safety rests; it is fulfilled elsewhere")]
pub unsafe trait DmaMemory: Debug {
    /// Size in bytes.
    fn size(&self) -> usize;

    /// DMA address of the first byte. There is no IOMMU: it is the physical address.
    fn device_address(&self) -> u64;

    /// Copies bytes out of the memory, with accesses of any width.
    fn read(&self, offset: usize, bytes: &mut [u8]);

    /// Copies bytes into the memory, with accesses of any width.
    fn write(&self, offset: usize, bytes: &[u8]);

    /// Loads 16 bits, little-endian, in one access with acquire ordering.
    ///
    /// `offset` is even.
    fn load_acquire(&self, offset: usize) -> u16;

    /// Stores 16 bits, little-endian, in one access with release ordering.
    ///
    /// `offset` is even.
    fn store_release(&self, offset: usize, value: u16);

    /// Full memory barrier: orders earlier stores before later loads, too.
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Allocates DMA memory. The hal implements it. Drivers call it only during initialization. Buffers that a
/// driver needs later are planned ([`DataPlan`]), and allocated by the driver's owner.
pub trait DmaAllocator {
    /// The allocated memory.
    type Memory: DmaMemory;

    /// Allocates at least `size` bytes: zeroed, physically contiguous, page-aligned; `None` if there is no
    /// such memory. The memory keeps a clone of the permit: see [`DmaMemory`].
    fn allocate(&self, size: usize, permit: &DmaPermit) -> Option<Self::Memory>;

    /// Moves a value of at most a few words into an [`Arc`]. Returns `None` if there is no memory.
    /// (`Arc::try_new` is not stable.)
    fn share<V>(&self, value: V) -> Option<Arc<V>>;
}

/// A device's permission to access its DMA memory. It is granted when the driver sets `DRIVER_OK`, since
/// devices do not use virtqueues before (virtio 1.2, section 2.1.2). It is revoked when a reset has
/// completed.
///
/// Memory that is dropped while the permit is granted is leaked instead of freed, for example after a reset
/// that timed out.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
pub struct DmaPermit(Arc<AtomicBool>);

impl DmaPermit {
    /// Creates a permit that is not granted; `None` if there is no memory.
    pub(crate) fn new(dma: &impl DmaAllocator) -> Option<Self> {
        dma.share(AtomicBool::new(false)).map(Self)
    }

    /// Returns true if the device may access the memory.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn grant(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn revoke(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A part of [`DmaMemory`] with a single owner.
///
/// Only the owner accesses its bytes. To pass the bytes to the device, the driver moves the value into a
/// [`Virtqueue`](crate::virtqueue::Virtqueue), and gets it back when the device has used the bytes. So an
/// access while the device owns the buffer does not compile.
#[derive(Debug)]
pub struct DmaBuffer<M> {
    memory: Arc<M>,
    start: usize,
    size: usize,
}

impl<M: DmaMemory> DmaBuffer<M> {
    /// Allocates a zeroed buffer. Returns `None` if there is no memory, or if the size is 4 GiB or more,
    /// which does not fit into a descriptor.
    pub fn allocate(dma: &impl DmaAllocator<Memory = M>, size: usize, permit: &DmaPermit) -> Option<Self> {
        u32::try_from(size).ok()?;
        let memory = dma.allocate(size, permit).filter(|memory| memory.size() >= size)?;
        Some(Self { memory: dma.share(memory)?, start: 0, size })
    }

    /// Splits the buffer into parts of `size` bytes. A smaller remainder at the end is not used.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn split(self, size: usize) -> impl ExactSizeIterator<Item = Self> {
        let Self { memory, start, size: whole } = self;
        (0..whole / size).map(move |index| Self { memory: memory.clone(), start: start + index * size, size })
    }

    /// Size in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Copies bytes out, beginning at `offset` of the buffer, until the buffer or `bytes` ends. Returns the
    /// number of bytes copied.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let length = bytes.len().min(self.size.saturating_sub(offset));
        if let Some(bytes) = bytes.get_mut(..length).filter(|bytes| !bytes.is_empty()) {
            self.memory.read(self.start + offset, bytes);
        }
        length
    }

    /// Copies bytes in, beginning at `offset` of the buffer, until the buffer or `bytes` ends. Returns the
    /// number of bytes copied.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.size.saturating_sub(offset));
        if let Some(bytes) = bytes.get(..length).filter(|bytes| !bytes.is_empty()) {
            self.memory.write(self.start + offset, bytes);
        }
        length
    }

    /// Device-readable segment of the buffer, clamped to its end.
    #[must_use]
    pub fn readable(&self, range: Range<usize>) -> DmaSegment {
        self.segment(range, false)
    }

    /// Device-writable segment of the buffer, clamped to its end.
    #[must_use]
    pub fn writable(&self, range: Range<usize>) -> DmaSegment {
        self.segment(range, true)
    }

    fn segment(&self, range: Range<usize>, writable: bool) -> DmaSegment {
        let end = range.end.min(self.size);
        let start = range.start.min(end);
        // Neither conversion fails: `allocate` refuses 4 GiB and more.
        let offset = u64::try_from(self.start + start).unwrap_or_default();
        let length = u32::try_from(end - start).unwrap_or_default();
        DmaSegment { address: self.memory.device_address() + offset, length, writable }
    }
}

/// Plan of a driver's buffer. The driver's owner allocates the buffer without the driver's lock.
#[derive(Debug)]
pub struct DataPlan {
    size: usize,
    permit: DmaPermit,
}

impl DataPlan {
    /// Plans a buffer of `size` bytes.
    pub(crate) fn new(size: usize, permit: &DmaPermit) -> Self {
        Self { size, permit: permit.clone() }
    }

    /// Allocates the buffer; `None` if there is no memory.
    pub fn allocate<D: DmaAllocator>(&self, dma: &D) -> Option<DataBuffer<D::Memory>> {
        DmaBuffer::allocate(dma, self.size, &self.permit).map(DataBuffer)
    }
}

/// A buffer that was allocated according to a [`DataPlan`], for the driver that planned it.
#[derive(Debug)]
pub struct DataBuffer<M>(pub(crate) DmaBuffer<M>);

/// Contents of one descriptor: a contiguous part of a [`DmaBuffer`] or a [`Span`](mirrored::Span), and the
/// direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSegment {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) writable: bool,
}
