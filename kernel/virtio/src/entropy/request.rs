//! A request to an entropy device: one device-writable buffer (virtio 1.2, section 5.4.6).

use core::iter;

use super::MAX_REQUEST;
use crate::dma::{DmaBuffer, DmaMemory, DmaSegment};
use crate::virtqueue::DescriptorChain;

/// Overwrites random bytes in the buffer once they have been copied out.
const ZEROES: [u8; MAX_REQUEST] = [0; MAX_REQUEST];

/// A buffer that the device fills with random bytes.
#[derive(Debug)]
pub(super) struct EntropyRequest<M> {
    buffer: DmaBuffer<M>,
    length: usize,
}

impl<M: DmaMemory> EntropyRequest<M> {
    /// Requests `length` random bytes in the buffer.
    pub(super) const fn new(buffer: DmaBuffer<M>, length: usize) -> Self {
        Self { buffer, length }
    }

    /// The buffer of a request that was not submitted.
    pub(super) fn into_buffer(self) -> DmaBuffer<M> {
        self.buffer
    }

    /// Copies up to `written` random bytes out, zeroes the buffer and returns it with the number of bytes.
    pub(super) fn finish(self, written: u32, bytes: &mut [u8]) -> (DmaBuffer<M>, usize) {
        let Self { mut buffer, .. } = self;
        let written = usize::try_from(written).unwrap_or(usize::MAX).min(bytes.len());
        let count = bytes.get_mut(..written).map_or(0, |bytes| buffer.read(0, bytes));
        // The bytes may become keys: no copy stays in DMA memory.
        buffer.write(0, &ZEROES);
        (buffer, count)
    }
}

impl<M: DmaMemory> DescriptorChain for EntropyRequest<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        iter::once(self.buffer.writable(0..self.length))
    }
}
