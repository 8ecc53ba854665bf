//! Mirrored DMA memory, which is accessed in place, and spans of it with a single owner; the hal implements
//! the traits.
//!
//! The pages are mapped twice in a row, the second mapping directly after the first: a range that wraps
//! around the end of the memory is contiguous in virtual addresses. In DMA addresses the memory exists once.

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::fmt::Debug;
use core::marker::PhantomData;
use core::ops::Range;

use super::{DmaAllocator, DmaPermit, DmaSegment};

/// Mirrored DMA memory, whose bytes the driver accesses in place while the device does not own them.
///
/// The hal implements it over physically contiguous pages that are mapped twice in a row. Unlike with
/// [`DmaMemory`], there are Rust references to the bytes, at most one to each byte: see [`ExclusiveRange`]. A
/// malicious device can write to bytes that it no longer owns, as it can write to any memory, since there is
/// no IOMMU.
///
/// # Safety
///
/// The contract of [`DmaMemory`], for the same reason. In addition, `with_bytes` must pass exactly the bytes
/// of the range.
///
/// [`DmaMemory`]: super::DmaMemory
#[expect(unsafe_code, reason = "declares a contract on which memory safety rests; it is fulfilled elsewhere")]
pub unsafe trait MirroredMemory: Debug {
    /// Size of one mapping in bytes, a power of two.
    fn size(&self) -> usize;

    /// DMA address of the first byte. There is no IOMMU: it is the physical address.
    fn device_address(&self) -> u64;

    /// Calls `action` with the bytes of a range.
    fn with_bytes<R>(&self, range: ExclusiveRange<'_>, action: impl FnOnce(&mut [u8]) -> R) -> R;
}

/// Allocates mirrored memory. The hal implements it; drivers call it only during initialization.
pub trait MirroredAllocator: DmaAllocator {
    /// The allocated memory.
    type Mirrored: MirroredMemory;

    /// Allocates `size` bytes, a power of two and at least a page; `None` if there is no such memory.
    ///
    /// The contents are arbitrary: zeroing would touch pages that may never be used. The memory keeps a clone
    /// of the permit: see [`MirroredMemory`].
    fn allocate_mirrored(&self, size: usize, permit: &DmaPermit) -> Option<Self::Mirrored>;
}

/// A range of mirrored memory that nothing else accesses while this value exists, neither the device nor code
/// with another range.
///
/// Implementations of [`MirroredMemory`] rely on this exclusiveness. It holds because only this module
/// creates ranges, and only for the owner of a [`Span`].
#[derive(Debug)]
pub struct ExclusiveRange<'span> {
    start: usize,
    length: usize,
    owner: PhantomData<&'span mut ()>,
}

impl ExclusiveRange<'_> {
    /// Offset of the first byte, in the first mapping.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Length in bytes: at most the size of one mapping.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }
}

/// A part of [`MirroredMemory`] with a single owner; it may wrap around the end of the memory.
///
/// As with [`DmaBuffer`](super::DmaBuffer), the value moves into a virtqueue and back. No two spans overlap:
/// all spans are parts of the span that [`Span::allocate`] returned.
#[derive(Debug)]
pub struct Span<A> {
    memory: Arc<A>,
    start: usize,
    size: usize,
}

impl<A: MirroredMemory> Span<A> {
    /// Allocates mirrored memory as one span, with arbitrary contents; `None` if there is no memory, or
    /// `size` is no power of two from 4 KiB to 2 GiB.
    pub fn allocate(
        allocator: &impl MirroredAllocator<Mirrored = A>,
        size: usize,
        permit: &DmaPermit,
    ) -> Option<Self> {
        u32::try_from(size).ok().filter(|size| size.is_power_of_two() && *size >= 4096)?;
        let memory = allocator.allocate_mirrored(size, permit).filter(|memory| memory.size() == size)?;
        Some(Self { memory: allocator.share(memory)?, start: 0, size })
    }

    /// Size in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Offset of the first byte in the memory.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Offset in the memory of the byte that follows the span.
    fn end(&self) -> usize {
        (self.start + self.size) & (self.memory.size() - 1)
    }

    /// Splits off the first `size` bytes; `None` if the span is smaller.
    pub fn split_front(&mut self, size: usize) -> Option<Self> {
        let rest = self.size.checked_sub(size)?;
        let front = Self { memory: self.memory.clone(), start: self.start, size };
        (self.start, self.size) = (front.end(), rest);
        Some(front)
    }

    /// Appends the span that follows this one.
    ///
    /// # Errors
    ///
    /// Returns `next` if it begins elsewhere.
    pub fn append(&mut self, next: Self) -> Result<(), Self> {
        if !self.is_followed_by(&next) {
            return Err(next);
        }
        self.size += next.size;
        Ok(())
    }

    /// Returns true if `next` begins directly after this span.
    #[must_use]
    pub fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &next.memory) && next.start == self.end()
    }

    /// Calls `action` with the span's bytes.
    pub fn with_bytes<R>(&mut self, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let range = ExclusiveRange { start: self.start, length: self.size, owner: PhantomData };
        self.memory.with_bytes(range, action)
    }

    /// Calls `action` with the bytes of adjacent spans as one slice; `None` if there are no spans, or they
    /// are not adjacent in their order.
    pub fn with_joined<R>(spans: &mut [Self], action: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let first = spans.first()?;
        if !spans.is_sorted_by(Self::is_followed_by) {
            return None;
        }
        // At most the size of the memory: spans do not overlap.
        let length = spans.iter().map(Self::size).sum();
        let range = ExclusiveRange { start: first.start, length, owner: PhantomData };
        Some(first.memory.with_bytes(range, action))
    }

    /// Device-readable segments of a part of the span: one, or two if it wraps around the end of the memory.
    pub fn readable(&self, range: Range<usize>) -> impl Iterator<Item = DmaSegment> {
        self.segments(range, false)
    }

    /// Device-writable segments of a part of the span: one, or two if it wraps around the end of the memory.
    pub fn writable(&self, range: Range<usize>) -> impl Iterator<Item = DmaSegment> {
        self.segments(range, true)
    }

    /// Segments of a part of the span, clamped to its end.
    fn segments(&self, range: Range<usize>, writable: bool) -> impl Iterator<Item = DmaSegment> {
        let length = range.end.min(self.size).saturating_sub(range.start);
        let start = self.start.wrapping_add(range.start) & (self.memory.size() - 1);
        let before_end = length.min(self.memory.size() - start);
        let address = self.memory.device_address();
        // Neither conversion fails: the memory has at most 2 GiB.
        let segment = move |start, length| DmaSegment {
            address: address + u64::try_from(start).unwrap_or_default(),
            length: u32::try_from(length).unwrap_or_default(),
            writable,
        };
        let parts = [segment(start, before_end), segment(0, length - before_end)];
        parts.into_iter().filter(|part| part.length > 0)
    }
}
