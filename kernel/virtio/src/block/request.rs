//! A request to a block device: header, data, status (virtio 1.2, section 5.2.6).

use alloc::vec::Vec;
use core::iter;

use virtio_spec::blk::{S as Status, T as RequestType};

use super::Token;
use crate::device::InitError;
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory, DmaSegment};
use crate::virtqueue::DescriptorChain;

/// Bytes of the header: kind, a reserved word, the first sector.
const HEADER_SIZE: usize = 16;

/// Where the status is, behind the header in the same buffer.
const STATUS: usize = HEADER_SIZE;

/// Bytes of a buffer for header and status, and some to keep the next one aligned.
const HEADER_BUFFER_SIZE: usize = 32;

/// What the status is until the device writes it: none that there is.
const NO_STATUS: u8 = 0xff;

/// Why the device did not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An error of the device or the medium, or an answer that makes no sense.
    #[error("input/output error")]
    InputOutput,
    /// The device does not know that kind of request.
    #[error("the device does not support the request")]
    Unsupported,
}

/// The buffers of a request.
#[derive(Debug)]
pub(super) struct RequestBuffers<M> {
    control: DmaBuffer<M>,
    data: DmaBuffer<M>,
}

impl<M: DmaMemory> RequestBuffers<M> {
    /// Buffers for some requests with up to `size` bytes of data each.
    pub(super) fn allocate(
        dma: &impl DmaAllocator<Memory = M>,
        requests: u16,
        size: usize,
    ) -> Result<Vec<Self>, InitError> {
        let count = usize::from(requests);
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).map_err(|_| InitError::OutOfMemory)?;
        let controls = DmaBuffer::allocate(dma, count * HEADER_BUFFER_SIZE).ok_or(InitError::OutOfMemory)?;
        for control in controls.split(HEADER_BUFFER_SIZE) {
            // One by one: that much contiguous memory can be rare.
            let data = DmaBuffer::allocate(dma, size).ok_or(InitError::OutOfMemory)?;
            slots.push(Self { control, data });
        }
        Ok(slots)
    }
}

/// A request and its buffers.
#[derive(Debug)]
pub(super) struct Request<M> {
    slot: RequestBuffers<M>,
    kind: RequestType,
    /// Bytes of data.
    length: usize,
    /// Most of them that a descriptor describes.
    segment_size: usize,
}

impl<M: DmaMemory> Request<M> {
    /// A request with `length` bytes of data, none of which is set.
    pub(super) fn new(
        slot: RequestBuffers<M>,
        kind: RequestType,
        sector: u64,
        length: usize,
        segment_size: usize,
    ) -> Self {
        let mut request = Self { slot, kind, length, segment_size };
        let mut header = [0; STATUS + 1];
        header[..4].copy_from_slice(&u32::from(kind).to_le_bytes());
        header[8..HEADER_SIZE].copy_from_slice(&sector.to_le_bytes());
        header[STATUS] = NO_STATUS;
        request.slot.control.write(0, &header);
        request
    }

    /// The same with data to be written.
    pub(super) fn with_data(mut self, bytes: &[u8]) -> Self {
        self.slot.data.write(0, bytes);
        self
    }

    /// Its buffers.
    pub(super) fn into_slot(self) -> RequestBuffers<M> {
        self.slot
    }

    /// What the device, which says to have written `written` bytes, made of it.
    pub(super) fn finish(self, token: Token, written: u32) -> Completion<M> {
        let mut status = [NO_STATUS];
        self.slot.control.read(STATUS, &mut status);
        let read = if self.kind == RequestType::In { self.length } else { 0 };
        // The status comes after the data: less than all of both, and what is in the buffers is old.
        let is_whole = usize::try_from(written).is_ok_and(|written| written > read);
        let result = match Status::try_from(status[0]) {
            Ok(Status::Ok) if is_whole => Ok(read),
            Ok(Status::Unsupp) => Err(RequestError::Unsupported),
            _ => Err(RequestError::InputOutput),
        };
        Completion { token, result, slot: self.slot }
    }
}

impl<M: DmaMemory> DescriptorChain for Request<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        let RequestBuffers { control, data } = &self.slot;
        let parts = (0..self.length).step_by(self.segment_size.max(1)).map(|start| {
            let range = start..self.length.min(start + self.segment_size);
            if self.kind == RequestType::In { data.writable(range) } else { data.readable(range) }
        });
        let header = iter::once(control.readable(0..HEADER_SIZE));
        header.chain(parts).chain(iter::once(control.writable(STATUS..STATUS + 1)))
    }
}

/// A request that the device is done with.
#[derive(Debug)]
#[must_use = "its buffers are lost unless they are released"]
pub struct Completion<M> {
    token: Token,
    result: Result<usize, RequestError>,
    slot: RequestBuffers<M>,
}

impl<M: DmaMemory> Completion<M> {
    /// Which request it was.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// How many bytes were read (0 if it was not a read), or what went wrong.
    ///
    /// # Errors
    ///
    /// The device's answer.
    pub const fn result(&self) -> Result<usize, RequestError> {
        self.result
    }

    /// Copies data that was read out, from `offset` on; how many bytes.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let length = self.result.unwrap_or(0).saturating_sub(offset).min(bytes.len());
        bytes.get_mut(..length).map_or(0, |bytes| self.slot.data.read(offset, bytes))
    }

    /// Its buffers.
    pub(super) fn into_slot(self) -> RequestBuffers<M> {
        self.slot
    }
}
