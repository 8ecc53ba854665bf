//! Requests to a file system device, and their buffers (virtio 1.2, section 5.11.6).
//!
//! A request consists of a FUSE header, data, and room for the reply. Each slot of the driver has a DMA
//! buffer of 4 KiB: the device reads the request from its first half and writes the reply to its second half.
//! If one half is too small for the data, a data buffer is used, too, for one of the directions.
//!
//! A request passes through one type for each state. [`ReservedRequest`] owns a slot and its buffers, and is
//! filled without the driver's lock. [`FilledRequest`] can be submitted. `FsRequest` is the descriptor chain
//! that the virtqueue owns while the device works on it. [`ServedRequest`] is the reply: it is read without
//! the lock, and then its buffers return to the driver.

use core::task::Waker;

use hermit_fuse::{MAX_HEAD, MAX_REPLY_HEAD, Request, Tag};

use crate::dma::{DmaBuffer, DmaMemory, DmaSegment};
use crate::virtqueue::DescriptorChain;

/// Size in bytes of each half of a request's page. The device reads the first half and writes the second one.
pub(super) const INLINE: usize = 2048;

/// Maximum size in bytes of a message whose reply no task awaits.
pub(super) const MAX_MESSAGE: usize = 64;

/// Size in bytes of the data in the direction that has more of it.
pub(super) fn data_size(request: &Request<'_>) -> usize {
    request.data.len().max(request.reply_data)
}

/// Returns true if a request does not fit into a page.
pub(super) const fn needs_data_buffer(request: &Request<'_>) -> bool {
    request.head.len() + request.data.len() > INLINE || request.reply_head + request.reply_data > INLINE
}

/// Returns true if a request fits into a page and a data buffer.
pub(super) fn fits(request: &Request<'_>, max_data: usize) -> bool {
    let has_valid_heads = request.head.len() <= MAX_HEAD && request.reply_head <= MAX_REPLY_HEAD;
    let max_data = if needs_data_buffer(request) { max_data } else { INLINE };
    // There is one data buffer, for one direction.
    let has_one_direction =
        request.head.len() + request.data.len() <= INLINE || request.reply_data <= INLINE - MAX_REPLY_HEAD;
    has_valid_heads && has_one_direction && data_size(request) <= max_data
}

/// Resources reserved for a request: a slot of the driver, and buffers.
#[derive(Debug)]
#[must_use = "its buffers are lost unless it is submitted"]
pub struct ReservedRequest<M> {
    slot: u16,
    page: DmaBuffer<M>,
    data: Option<DmaBuffer<M>>,
}

impl<M: DmaMemory> ReservedRequest<M> {
    pub(super) const fn new(slot: u16, page: DmaBuffer<M>, data: Option<DmaBuffer<M>>) -> Self {
        Self { slot, page, data }
    }

    /// Copies the request for which the buffers were reserved.
    pub fn fill(self, request: &Request<'_>) -> FilledRequest<M> {
        FilledRequest(FsRequest::new(self.slot, self.page, self.data, request))
    }
}

/// A request to be submitted.
#[derive(Debug)]
#[must_use = "its buffers are lost unless it is submitted"]
pub struct FilledRequest<M>(pub(super) FsRequest<M>);

/// A request and its buffers.
#[derive(Debug)]
pub(super) struct FsRequest<M> {
    slot: u16,
    page: DmaBuffer<M>,
    data: Option<DmaBuffer<M>>,
    /// Offsets in the page at which the device-readable descriptors end.
    ends: [usize; 3],
    /// Number of bytes in the data buffer that the device reads.
    data_size: usize,
    /// Number of bytes that the device writes to the page, and number of bytes that it writes to the data
    /// buffer.
    reply: [usize; 2],
    tag: Tag,
}

impl<M: DmaMemory> FsRequest<M> {
    /// Copies a request into its buffers. If the request needs a data buffer, the caller must pass one.
    pub(super) fn new(
        slot: u16,
        mut page: DmaBuffer<M>,
        mut data: Option<DmaBuffer<M>>,
        request: &Request<'_>,
    ) -> Self {
        let (head, [first, second]) = (request.head.len(), request.split);
        page.write(0, request.head);
        let is_inline = head + request.data.len() <= INLINE;
        let mut data_size = 0;
        if is_inline {
            page.write(head, request.data);
        } else if let Some(buffer) = &mut data {
            data_size = buffer.write(0, request.data);
        }
        let end = if is_inline { head + request.data.len() } else { head };
        let ends = [first.min(end), (first + second).min(end), end];
        let size = request.reply_head + request.reply_data;
        let reply = if size <= INLINE { [size, 0] } else { [request.reply_head, request.reply_data] };
        Self { slot, page, data, ends, data_size, reply, tag: request.tag }
    }

    /// Number of the request's slot.
    pub(super) const fn number(&self) -> u16 {
        self.slot
    }

    /// Index of the request's slot.
    pub(super) fn slot(&self) -> usize {
        self.slot.into()
    }

    pub(super) fn into_buffers(self) -> (usize, DmaBuffer<M>, Option<DmaBuffer<M>>) {
        (self.slot.into(), self.page, self.data)
    }

    /// Copies bytes of the reply.
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let [inline, _] = self.reply;
        let (first, rest) = bytes.split_at_mut(inline.saturating_sub(offset).min(bytes.len()));
        self.page.read(INLINE + offset, first);
        if let (Some(data), false) = (&self.data, rest.is_empty()) {
            data.read(offset + first.len() - inline, rest);
        }
    }
}

impl<M: DmaMemory> DescriptorChain for FsRequest<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        let [first, second, third] = self.ends;
        let [inline, rest] = self.reply;
        let data = |range, is_writable| {
            let buffer = self.data.as_ref()?;
            Some(if is_writable { buffer.writable(range) } else { buffer.readable(range) })
        };
        let heads = [0..first, first..second, second..third];
        let heads =
            heads.into_iter().filter(|range| !range.is_empty()).map(|range| self.page.readable(range));
        let reply = (inline > 0).then(|| self.page.writable(INLINE..INLINE + inline));
        heads
            .chain((self.data_size > 0).then(|| data(0..self.data_size, false)).flatten())
            .chain(reply)
            .chain((rest > 0).then(|| data(0..rest, true)).flatten())
    }
}

/// A request whose reply has arrived, and its buffers.
#[derive(Debug)]
#[must_use = "its buffers are lost unless they are released"]
pub struct ServedRequest<M> {
    request: FsRequest<M>,
    written: usize,
    waker: Option<Waker>,
}

impl<M: DmaMemory> ServedRequest<M> {
    pub(super) fn new(request: FsRequest<M>, written: u32, waker: Option<Waker>) -> Self {
        Self { request, written: usize::try_from(written).unwrap_or(0), waker }
    }

    pub(super) const fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    pub(super) fn into_request(self) -> FsRequest<M> {
        self.request
    }

    /// Tag that the sender has passed with the request.
    #[must_use]
    pub const fn tag(&self) -> Tag {
        self.request.tag
    }

    /// Size of the reply in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.written
    }

    /// Returns true if the reply is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Copies bytes of the reply, beginning at an offset. Returns the number of bytes copied.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let count = self.written.saturating_sub(offset).min(bytes.len());
        if let Some(bytes) = bytes.get_mut(..count) {
            self.request.read(offset, bytes);
        }
        count
    }
}

/// A message in the high-priority queue.
#[derive(Debug)]
pub(super) struct OneWayMessage<M> {
    buffer: DmaBuffer<M>,
    size: usize,
}

impl<M: DmaMemory> OneWayMessage<M> {
    pub(super) fn new(mut buffer: DmaBuffer<M>, bytes: &[u8]) -> Self {
        let size = buffer.write(0, bytes);
        Self { buffer, size }
    }

    pub(super) fn into_buffer(self) -> DmaBuffer<M> {
        self.buffer
    }
}

impl<M: DmaMemory> DescriptorChain for OneWayMessage<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        core::iter::once(self.buffer.readable(0..self.size))
    }
}

/// A message that waits for room in its queue. No task waits for the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateMessage {
    bytes: [u8; MAX_MESSAGE],
    size: usize,
    /// True if the device replies. Then the message goes to the request queue.
    pub(super) has_reply: bool,
}

impl LateMessage {
    pub(super) fn new(bytes: &[u8], has_reply: bool) -> Option<Self> {
        let mut message = Self { bytes: [0; MAX_MESSAGE], size: bytes.len(), has_reply };
        message.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(message)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }
}
