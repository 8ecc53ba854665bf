//! The receive queue: buffers posted in order of address.
//!
//! The memory of the queue is one range, divided into buffers of equal size. A large frame spans several
//! buffers (`VIRTIO_NET_F_MRG_RXBUF`), and the stack wants its bytes in one piece. So the buffers are posted
//! in order of address: a device that uses them in order writes each frame to adjacent buffers, which are
//! mapped one after the other. Buffers are released in any order; a [`ReorderBuffer`] holds them until their
//! turn comes.
//!
//! The driver collects one frame at a time. [`Rx::take`] moves its buffers into an [`RxFrame`], whose bytes
//! are read without the driver's lock, and [`Rx::release`] makes the buffers free again. A frame whose
//! buffers are not adjacent, or whose length is invalid, is dropped and counted.

use alloc::vec::Vec;
use core::mem;

use virtio_spec::net::F;

use super::RECEIVEQ;
use super::header::{HEADER_SIZE, NetHeader, RxInfo};
use super::reorder::ReorderBuffer;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredMemory, Span};
use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Maximum number of buffers. More buffers would only make the frames spread over more cache lines.
const MAX_BUFFERS: u16 = 1024;

/// A buffer that the device fills with a frame, or a part of one.
#[derive(Debug)]
struct RxBuffer<A>(Span<A>);

impl<A: MirroredMemory> DescriptorChain for RxBuffer<A> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        self.0.writable(0..self.0.size())
    }
}

/// A received frame. [`NetDriver::take_frame`](super::NetDriver::take_frame) takes it out of the driver, so
/// that its owner can read its bytes while other threads call the driver.
///
/// [`NetDriver::release_frame`](super::NetDriver::release_frame) returns its buffers to the device. If the
/// frame is dropped instead, the buffers are lost, and the driver receives no further frames.
#[derive(Debug)]
#[must_use = "the driver receives no further frames until this one is released"]
pub struct RxFrame<A> {
    /// Adjacent buffers, in order; never empty.
    spans: Vec<Span<A>>,
    /// Size in bytes, with the virtio header.
    length: usize,
    info: RxInfo,
}

impl<A: MirroredMemory> RxFrame<A> {
    /// Calls `read` with the frame's bytes and metadata, and returns its result.
    pub fn with_bytes<R>(&mut self, read: impl FnOnce(&[u8], RxInfo) -> R) -> Option<R> {
        let Self { spans, length, info } = self;
        Span::with_joined(spans, |bytes| read(bytes.get(HEADER_SIZE..*length).unwrap_or_default(), *info))
    }
}

/// The receive queue and its buffers.
#[derive(Debug)]
pub(super) struct Rx<M, A> {
    queue: Virtqueue<M, RxBuffer<A>>,
    features: F,
    /// Size of a buffer in bytes, a power of two.
    buffer_size: usize,
    /// Buffers that the device does not own; they are posted in order of address.
    free: ReorderBuffer<Span<A>>,
    /// Buffers of the frame being collected, in the order in which the device used them.
    frame: Vec<Span<A>>,
    /// True if an [`RxFrame`] has taken `frame`, and with it the capacity for the next frame.
    is_frame_taken: bool,
    /// Number of buffers posted since the last notification.
    unnotified: usize,
    dropped: u64,
}

impl<M: DmaMemory, A: MirroredMemory> Rx<M, A> {
    /// Sets up the virtqueue, and splits the memory into buffers of at least `min_size` bytes. [`Rx::post`]
    /// posts them later.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
        mut memory: Span<A>,
        min_size: usize,
    ) -> Result<Self, InitError> {
        let max_buffers = u16::try_from(memory.size() / min_size).unwrap_or(u16::MAX).min(MAX_BUFFERS);
        let queue: Virtqueue<M, RxBuffer<A>> = device.setup_queue(dma, RECEIVEQ, max_buffers)?;
        let count = usize::from(queue.size());
        let buffer_size = memory.size() / count;
        let mut frame = Vec::new();
        frame.try_reserve_exact(count)?;
        let mut free = ReorderBuffer::new(count).ok_or(InitError::OutOfMemory)?;
        for number in 0..count {
            free.insert(number, memory.split_front(buffer_size).ok_or(InitError::OutOfMemory)?);
        }
        let features = F::from(device.features());
        Ok(Self {
            queue,
            features,
            buffer_size,
            free,
            frame,
            is_frame_taken: false,
            unnotified: 0,
            dropped: 0,
        })
    }

    /// Number of dropped frames.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if the device has used buffers.
    pub(super) fn has_used(&self) -> bool {
        self.queue.has_used()
    }

    /// Posts all buffers that are next in order.
    pub(super) fn post(&mut self) {
        while let Some(span) = self.free.pop_next() {
            // The queue has as many descriptors as there are buffers, so it is never full. If it is broken,
            // the next call of `take` returns the error.
            let _posted = self.queue.submit(RxBuffer(span));
            self.unnotified += 1;
        }
    }

    /// Notifies the device of posted buffers, unless it suppresses notifications.
    pub(super) fn notify<T: Transport>(&mut self, device: &mut Device<T>) {
        self.unnotified = 0;
        self.queue.notify(device.transport());
    }

    /// Collects, validates and returns the next frame. Returns `None` if no frame has arrived, or if the
    /// previous frame is not released yet.
    pub(super) fn take<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<RxFrame<A>>, DeviceError> {
        if self.is_frame_taken {
            return Ok(None);
        }
        // The number of attempts is bounded, since a device could send invalid frames as fast as the driver
        // posts buffers.
        for _ in 0..self.free.size() {
            let Some((length, header)) = self.gather(device)? else { return Ok(None) };
            let size = length.saturating_sub(HEADER_SIZE);
            let info = header.and_then(|header| header.check(self.features, size));
            match info.filter(|_| self.is_contiguous(length)) {
                Some(info) => {
                    self.is_frame_taken = true;
                    return Ok(Some(RxFrame { spans: mem::take(&mut self.frame), length, info }));
                }
                None => self.drop_frame(device),
            }
        }
        Ok(None)
    }

    /// Collects the buffers of the next frame. Returns the number of bytes that the device wrote, and the
    /// header unless it is already known to be invalid.
    fn gather<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<(usize, Option<NetHeader>)>, DeviceError> {
        let Some(mut last) = self.next_used_buffer(device)? else { return Ok(None) };
        let parse = |bytes: &mut [u8]| bytes.get(..last).and_then(NetHeader::parse);
        let header = self.frame.first_mut().and_then(|first| first.with_bytes(parse));
        let merged = header.filter(|_| self.features.contains(F::MRG_RXBUF));
        let buffers = merged.map_or(1, |header| header.buffers);
        let (mut length, mut is_whole) = (last, buffers > 0);
        for _ in 1..buffers {
            is_whole &= last == self.buffer_size;
            // The device must use all buffers of a frame together (section 5.1.6.4).
            last = self.next_used_buffer(device)?.ok_or_else(|| device.fail(DeviceError::MissingBuffers))?;
            length += last;
        }
        Ok(Some((length, header.filter(|_| is_whole))))
    }

    /// Takes the next used buffer; returns the number of bytes written.
    fn next_used_buffer<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<usize>, DeviceError> {
        let used = self.queue.complete();
        let Some(used) = device.checked(used)? else { return Ok(None) };
        // Does not allocate: the vector's capacity is the number of buffers.
        self.frame.push(used.chain.0);
        // Never fails: the virtqueue checks that the number is at most the buffer's size.
        Ok(Some(usize::try_from(used.written).unwrap_or_default()))
    }

    /// Returns true if the buffers are adjacent, and `length` bytes fill all of them.
    fn is_contiguous(&self, length: usize) -> bool {
        length.div_ceil(self.buffer_size) == self.frame.len() && self.frame.is_sorted_by(Span::is_followed_by)
    }

    /// Drops the collected frame.
    fn drop_frame<T: Transport>(&mut self, device: &mut Device<T>) {
        self.dropped += 1;
        self.repost(device);
    }

    /// Posts the buffers of a frame that [`Rx::take`] returned.
    pub(super) fn release<T: Transport>(&mut self, device: &mut Device<T>, frame: RxFrame<A>) {
        self.frame = frame.spans;
        self.is_frame_taken = false;
        self.repost(device);
    }

    /// Posts the buffers of the collected frame again.
    fn repost<T: Transport>(&mut self, device: &mut Device<T>) {
        for span in self.frame.drain(..) {
            self.free.insert(span.start() / self.buffer_size, span);
        }
        self.post();
        // Notifies the device early if many buffers are posted: a device that has run out of buffers must not
        // wait for the end of a long batch.
        if self.unnotified >= self.free.size() / 4 {
            self.notify(device);
        }
    }

    /// Enables or disables the interrupt. Returns true if the device has used buffers already; then there may
    /// be no interrupt for them.
    pub(super) fn set_interrupt<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        on: bool,
    ) -> Result<bool, DeviceError> {
        if on {
            let armed = self.queue.arm(1);
            device.checked(armed)?;
        } else {
            self.queue.disarm();
        }
        Ok(self.queue.has_used())
    }
}
