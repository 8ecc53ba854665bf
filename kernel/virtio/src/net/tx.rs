//! Frames to be transmitted: a ring of bytes.

use super::header::HEADER;
use super::reorder::ReorderBuffer;
use super::{MAX_FRAME, NetError, TRANSMITQ};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredMemory, Span};
use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Most frames that the device has at a time.
const MAX_FRAMES: u16 = 256;

/// Descriptors of a frame that goes on at the arena's start.
const DESCRIPTORS: u16 = 2;

/// Frames begin at multiples of this: a cache line, so that the device reads none that is being written.
const LINE: usize = 64;

/// A frame that the device has.
#[derive(Debug)]
struct Queued<A> {
    span: Span<A>,
    /// Bytes, with the header; the rest of the span is not used.
    length: usize,
    number: usize,
}

impl<A: MirroredMemory> DescriptorChain for Queued<A> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        self.span.readable(0..self.length)
    }
}

/// The transmit queue and its ring.
#[derive(Debug)]
pub(super) struct Tx<M, A> {
    queue: Virtqueue<M, Queued<A>>,
    /// What no frame has: one piece, since frames take it from the front and give it back at the end.
    free: Span<A>,
    /// The bytes of frames that the device is done with, by the frames' numbers.
    done: ReorderBuffer<Span<A>>,
    /// The next frame's number.
    number: usize,
    /// Somebody waits until the device has nothing: the interrupt for that stays asked for, whoever needs room meanwhile.
    end_is_awaited: bool,
    /// Bytes of the ring that no frame has had yet: what is in them must not leave the machine.
    fresh: usize,
}

impl<M: DmaMemory, A: MirroredMemory> Tx<M, A> {
    /// Makes the queue, with an arena as its ring.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
        memory: Span<A>,
    ) -> Result<Self, InitError> {
        let queue: Virtqueue<M, Queued<A>> = device.setup_queue(dma, TRANSMITQ, MAX_FRAMES)?;
        if queue.size() < DESCRIPTORS {
            return Err(InitError::InvalidConfig);
        }
        let done = ReorderBuffer::new(queue.size().into()).ok_or(InitError::OutOfMemory)?;
        let fresh = memory.size();
        Ok(Self { queue, free: memory, done, number: 0, end_is_awaited: false, fresh })
    }

    /// Whether the device has nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.queue.in_flight() == 0
    }

    /// Whether somebody waits for room, and the device is done with frames.
    pub(super) fn has_used(&self) -> bool {
        self.queue.is_armed() && self.queue.has_used()
    }

    /// Whether a frame of that size fits now.
    fn has_room(&self, size: usize) -> bool {
        let numbers = self.number.wrapping_sub(self.done.next_number());
        self.queue.free() >= DESCRIPTORS && numbers < self.done.size() && self.free.size() >= taken(size)
    }

    /// Makes room for a frame of that size, if that is possible; if not, an interrupt comes once there is more.
    pub(super) fn make_room<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        size: usize,
    ) -> Result<bool, DeviceError> {
        if size > MAX_FRAME {
            return Ok(false);
        }
        if self.has_room(size) {
            return Ok(true);
        }
        self.reclaim(device)?;
        while !self.has_room(size) {
            // Who waits for room shall not wait for a device that knows of nothing.
            self.notify(device);
            let armed = self.queue.arm((self.queue.in_flight() / 2).max(1));
            if !device.checked(armed)? {
                return Ok(false);
            }
            self.reclaim(device)?;
        }
        Ok(true)
    }

    /// Whether the device has frames; then an interrupt comes when it has none.
    pub(super) fn arm_tx_empty<T: Transport>(&mut self, device: &mut Device<T>) -> Result<bool, DeviceError> {
        self.end_is_awaited = false;
        self.reclaim(device)?;
        while !self.is_empty() {
            // Who waits for the end of what is queued wants it to begin.
            self.notify(device);
            let armed = self.queue.arm(self.queue.in_flight());
            if !device.checked(armed)? {
                self.end_is_awaited = true;
                return Ok(true);
            }
            self.reclaim(device)?;
        }
        Ok(false)
    }

    /// Takes back what the device is done with.
    pub(super) fn reclaim<T: Transport>(&mut self, device: &mut Device<T>) -> Result<(), DeviceError> {
        // There are at most as many as it has: none is given to it here.
        loop {
            let used = self.queue.complete();
            let Some(used) = device.checked(used)? else { break };
            self.done.put(used.chain.number, used.chain.span);
            if self.queue.is_armed() && !self.end_is_awaited {
                self.queue.disarm();
            }
        }
        while let Some(span) = self.done.take() {
            // It is where the free bytes end.
            let _appended: Result<(), Span<A>> = self.free.append(span);
        }
        Ok(())
    }

    /// Has `fill` write a frame and queues it.
    pub(super) fn queue<R>(
        &mut self,
        size: usize,
        header: &[u8; HEADER],
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, NetError> {
        if !self.has_room(size) {
            return Err(NetError::Full);
        }
        let mut span = self.free.split_front(taken(size)).ok_or(NetError::Full)?;
        let is_fresh = self.fresh > 0;
        self.fresh = self.fresh.saturating_sub(span.size());
        let result = span.with_bytes(|bytes| {
            if is_fresh {
                bytes.fill(0);
            }
            let (start, rest) = bytes.split_at_mut(HEADER);
            start.copy_from_slice(header);
            fill(rest.get_mut(..size).unwrap_or_default())
        });
        let frame = Queued { span, length: HEADER + size, number: self.number };
        // There are descriptors. If the queue is broken, the device is as well.
        let _submitted = self.queue.submit(frame);
        self.number = self.number.wrapping_add(1);
        Ok(result)
    }

    /// Tells the device of frames, if it wants to know.
    pub(super) fn notify<T: Transport>(&mut self, device: &mut Device<T>) {
        self.queue.notify(device.transport());
    }
}

/// How many bytes of the ring a frame takes.
const fn taken(size: usize) -> usize {
    (HEADER + size).next_multiple_of(LINE)
}
