//! A request to a block device: header, data, status (virtio 1.2, section 5.2.6).

use core::iter;

use virtio_spec::blk::{S as Status, T as RequestType};

use super::Ticket;
use crate::dma::{DmaBuffer, DmaMemory, DmaSegment};
use crate::virtqueue::DescriptorChain;

/// Size of the header in bytes: type, a reserved word, the first sector.
const HEADER_SIZE: usize = 16;

/// Offset of the status byte, which follows the header in the same buffer.
const STATUS: usize = HEADER_SIZE;

/// Size of a buffer for header and status in bytes, with padding that keeps the next one aligned.
pub(super) const HEADER_AND_STATUS_SIZE: usize = 32;

/// Status before the device writes it; no valid status has this value.
const NO_STATUS: u8 = 0xff;

/// Why the device failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockRequestError {
    /// An error of the device or the medium, or an invalid answer.
    #[error("input/output error")]
    InputOutput,
    /// The device does not support the request type.
    #[error("the device does not support the request")]
    Unsupported,
}

/// Buffers of a request.
#[derive(Debug)]
pub(super) struct RequestBuffers<M> {
    pub(super) header_and_status: DmaBuffer<M>,
    pub(super) data: DmaBuffer<M>,
}

/// A request and its buffers.
#[derive(Debug)]
pub(super) struct BlockRequest<M> {
    ticket: Ticket,
    buffers: RequestBuffers<M>,
    request_type: RequestType,
    /// Size of the data in bytes.
    length: usize,
    /// Maximum size of a data descriptor, in bytes.
    segment_size: usize,
}

impl<M: DmaMemory> BlockRequest<M> {
    /// Creates a request with `length` bytes of data, whose contents are arbitrary.
    pub(super) fn new(
        ticket: Ticket,
        buffers: RequestBuffers<M>,
        request_type: RequestType,
        sector: u64,
        length: usize,
        segment_size: usize,
    ) -> Self {
        let mut request = Self { ticket, buffers, request_type, length, segment_size };
        let mut header = [0; STATUS + 1];
        header[..4].copy_from_slice(&u32::from(request_type).to_le_bytes());
        header[8..HEADER_SIZE].copy_from_slice(&sector.to_le_bytes());
        header[STATUS] = NO_STATUS;
        request.buffers.header_and_status.write(0, &header);
        request
    }

    /// Copies the data of a write into the request's buffer.
    pub(super) fn with_data(mut self, bytes: &[u8]) -> Self {
        self.buffers.data.write(0, bytes);
        self
    }

    /// The ticket and the buffers of the request.
    pub(super) fn into_parts(self) -> (Ticket, RequestBuffers<M>) {
        (self.ticket, self.buffers)
    }

    /// Validates the answer of the device, which reports `written` bytes.
    pub(super) fn finish(self, written: u32) -> CompletedRequest<M> {
        let mut status = [NO_STATUS];
        self.buffers.header_and_status.read(STATUS, &mut status);
        let read = if self.request_type == RequestType::In { self.length } else { 0 };
        // The device writes the status byte after the data. If it reports fewer bytes than the data and the
        // status have, the buffers contain stale bytes.
        let is_whole = usize::try_from(written).is_ok_and(|written| written > read);
        let result = match Status::try_from(status[0]) {
            Ok(Status::Ok) if is_whole => Ok(read),
            Ok(Status::Unsupp) => Err(BlockRequestError::Unsupported),
            _ => Err(BlockRequestError::InputOutput),
        };
        CompletedRequest { ticket: self.ticket, result, buffers: self.buffers }
    }
}

impl<M: DmaMemory> DescriptorChain for BlockRequest<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        let RequestBuffers { header_and_status, data } = &self.buffers;
        let parts = (0..self.length).step_by(self.segment_size.max(1)).map(|start| {
            let range = start..self.length.min(start + self.segment_size);
            if self.request_type == RequestType::In { data.writable(range) } else { data.readable(range) }
        });
        let header = iter::once(header_and_status.readable(0..HEADER_SIZE));
        header.chain(parts).chain(iter::once(header_and_status.writable(STATUS..STATUS + 1)))
    }
}

/// A request that the device has served, and its buffers.
#[derive(Debug)]
#[must_use = "its buffers are lost unless they are released"]
pub struct CompletedRequest<M> {
    ticket: Ticket,
    result: Result<usize, BlockRequestError>,
    buffers: RequestBuffers<M>,
}

impl<M: DmaMemory> CompletedRequest<M> {
    /// The ticket of the request.
    pub(super) const fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Number of bytes read, which is 0 unless the request was a read.
    ///
    /// # Errors
    ///
    /// The device failed the request.
    pub const fn result(&self) -> Result<usize, BlockRequestError> {
        self.result
    }

    /// Copies data of a read into `bytes`, beginning at `offset` of the data. Returns the number of bytes
    /// copied.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let length = self.result.unwrap_or(0).saturating_sub(offset).min(bytes.len());
        bytes.get_mut(..length).map_or(0, |bytes| self.buffers.data.read(offset, bytes))
    }

    /// The ticket and the buffers of the request.
    pub(super) fn into_parts(self) -> (Ticket, RequestBuffers<M>) {
        (self.ticket, self.buffers)
    }
}
