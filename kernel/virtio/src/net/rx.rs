//! TakenChain frames: buffers in the arena's order.

use alloc::vec::Vec;

use virtio_spec::net::F;

use super::RECEIVEQ;
use super::header::{HEADER, Header, RxInfo};
use super::reorder::ReorderBuffer;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredMemory, Span};
use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Most buffers: with more, memory would only be colder.
const MAX_BUFFERS: u16 = 1024;

/// A buffer that waits for a frame, or a part of one.
#[derive(Debug)]
struct Posted<A>(Span<A>);

impl<A: MirroredMemory> DescriptorChain for Posted<A> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        self.0.writable(0..self.0.size())
    }
}

/// A frame that lies in the buffers of [`Rx::frame`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Bytes, with the header in front of it.
    length: usize,
    info: RxInfo,
}

/// The receive queue and its buffers.
#[derive(Debug)]
pub(super) struct Rx<M, A> {
    queue: Virtqueue<M, Posted<A>>,
    features: F,
    /// Bytes of a buffer, a power of two.
    buffer_size: usize,
    /// Buffers that the device does not have; they go to it in the arena's order.
    free: ReorderBuffer<Span<A>>,
    /// The buffers of the frame that is being used, in the order in which the device used them.
    frame: Vec<Span<A>>,
    /// How many buffers the device got since it was last told.
    unnotified: usize,
    dropped: u64,
}

impl<M: DmaMemory, A: MirroredMemory> Rx<M, A> {
    /// Makes the queue and its buffers of at least that many bytes, all of which are free.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
        mut memory: Span<A>,
        least: usize,
    ) -> Result<Self, InitError> {
        let most = u16::try_from(memory.size() / least).unwrap_or(u16::MAX).min(MAX_BUFFERS);
        let queue: Virtqueue<M, Posted<A>> = device.setup_queue(dma, RECEIVEQ, most)?;
        let count = usize::from(queue.size());
        let buffer_size = memory.size() / count;
        let mut frame = Vec::new();
        frame.try_reserve_exact(count).map_err(|_| InitError::OutOfMemory)?;
        let mut free = ReorderBuffer::new(count).ok_or(InitError::OutOfMemory)?;
        for number in 0..count {
            free.put(number, memory.split_front(buffer_size).ok_or(InitError::OutOfMemory)?);
        }
        let features = F::from(device.features());
        Ok(Self { queue, features, buffer_size, free, frame, unnotified: 0, dropped: 0 })
    }

    /// How many frames were dropped.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the device has used buffers.
    pub(super) fn has_used(&self) -> bool {
        self.queue.has_used()
    }

    /// Gives the device the buffers that are next.
    pub(super) fn post(&mut self) {
        while let Some(span) = self.free.take() {
            // There are as many descriptors as buffers. If the queue is broken, the next call will find out.
            let _posted = self.queue.submit(Posted(span));
            self.unnotified += 1;
        }
    }

    /// Tells the device of buffers that it got, if it wants to know.
    pub(super) fn notify<T: Transport>(&mut self, device: &mut Device<T>) {
        self.unnotified = 0;
        self.queue.notify(device.transport());
    }

    /// Finds the next frame, which [`Rx::with_frame`] uses and [`Rx::release`] gives back.
    pub(super) fn next<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<Frame>, DeviceError> {
        // A device that gives rubbish as fast as it gets buffers is not waited for.
        for _ in 0..self.free.size() {
            let Some((length, header)) = self.gather(device)? else { return Ok(None) };
            let size = length.saturating_sub(HEADER);
            let info = header.and_then(|header| header.check(self.features, size));
            match info.filter(|_| self.is_contiguous(length)) {
                Some(info) => return Ok(Some(Frame { length, info })),
                None => self.drop_frame(device),
            }
        }
        Ok(None)
    }

    /// Takes the next frame's buffers from the device: how many bytes it wrote, and the header if it can be a frame's.
    fn gather<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<(usize, Option<Header>)>, DeviceError> {
        let Some(mut last) = self.take_buffer(device)? else { return Ok(None) };
        let parse = |bytes: &mut [u8]| bytes.get(..last).and_then(Header::parse);
        let header = self.frame.first_mut().and_then(|first| first.with_bytes(parse));
        let merged = header.filter(|_| self.features.contains(F::MRG_RXBUF));
        let buffers = merged.map_or(1, |header| header.buffers);
        let (mut length, mut is_whole) = (last, buffers > 0);
        for _ in 1..buffers {
            is_whole &= last == self.buffer_size;
            // They must be used together (section 5.1.6.4).
            last = self.take_buffer(device)?.ok_or_else(|| device.fail(DeviceError::MissingBuffers))?;
            length += last;
        }
        Ok(Some((length, header.filter(|_| is_whole))))
    }

    /// Takes the next buffer that the device has used; how many bytes it wrote.
    fn take_buffer<T: Transport>(&mut self, device: &mut Device<T>) -> Result<Option<usize>, DeviceError> {
        let used = self.queue.complete();
        let Some(used) = device.checked(used)? else { return Ok(None) };
        // Does not allocate: there is room for all of them.
        self.frame.push(used.chain.0);
        // No more than the buffer has: the queue checks that.
        Ok(Some(usize::try_from(used.written).unwrap_or_default()))
    }

    /// Whether the buffers are one behind the other, and all of them were needed.
    fn is_contiguous(&self, length: usize) -> bool {
        length.div_ceil(self.buffer_size) == self.frame.len() && self.frame.is_sorted_by(Span::is_followed_by)
    }

    /// Drops the frame.
    fn drop_frame<T: Transport>(&mut self, device: &mut Device<T>) {
        self.dropped += 1;
        self.release(device);
    }

    /// Has `take` use the frame.
    pub(super) fn with_frame<R>(
        &mut self,
        Frame { length, info }: Frame,
        take: impl FnOnce(&[u8], RxInfo) -> R,
    ) -> Option<R> {
        Span::with_joined(&mut self.frame, |bytes| take(bytes.get(HEADER..length).unwrap_or_default(), info))
    }

    /// Gives the frame's buffers back to the device.
    pub(super) fn release<T: Transport>(&mut self, device: &mut Device<T>) {
        for span in self.frame.drain(..) {
            self.free.put(span.start() / self.buffer_size, span);
        }
        self.post();
        // One that has run out of buffers need not wait for the end of a long batch.
        if self.unnotified >= self.free.size() / 4 {
            self.notify(device);
        }
    }

    /// Switches interrupts on or off; whether there is something already.
    pub(super) fn interrupts<T: Transport>(
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
