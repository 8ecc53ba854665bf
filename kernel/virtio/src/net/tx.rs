//! The transmit queue: a ring of bytes.
//!
//! A frame takes just the bytes that it needs, rounded up to cache lines. The free part of the ring is one
//! [`Span`]: [`Tx::reserve`] splits the bytes of a frame off its front, and the driver appends the bytes of
//! completed frames at its end. The ring's memory is mapped twice in a row, so a frame that wraps around the
//! end is still one slice for the stack; for the device it is two descriptors. The device may complete frames
//! in any order, but only the bytes of the oldest frame can be appended to the free part. So a
//! [`ReorderBuffer`] keeps the bytes of a completed frame until all earlier frames are complete.
//!
//! A [`TxReservation`] owns its part of the ring, so the stack fills it without the driver's lock.

use super::header::HEADER_SIZE;
use super::reorder::ReorderBuffer;
use super::{MAX_FRAME, NetError, TRANSMITQ};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredMemory, Span};
use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Maximum number of frames in flight.
const MAX_FRAMES: u16 = 256;

/// Maximum number of descriptors of a frame: two if it wraps around the end of the memory.
const MAX_DESCRIPTORS: u16 = 2;

/// Alignment of frames: a cache line, so that the device never reads a line to which the driver writes
/// another frame.
const CACHE_LINE: usize = 64;

/// A part of the TX ring for one frame. [`NetDriver::reserve_frame`](super::NetDriver::reserve_frame) takes
/// it out of the driver, so that its owner can fill it while other threads call the driver.
///
/// If the reservation is dropped instead of submitted, its bytes of the ring are lost, and the driver
/// transmits no further frames.
#[derive(Debug)]
#[must_use = "the driver transmits no further frames until this one is submitted"]
pub struct TxReservation<A> {
    frame: TxFrame<A>,
    header: [u8; HEADER_SIZE],
    /// True if the bytes may have contents that must not leave the guest.
    may_be_stale: bool,
}

impl<A: MirroredMemory> TxReservation<A> {
    /// Calls `fill` to write the frame, which [`NetDriver::submit_frame`](super::NetDriver::submit_frame)
    /// then queues.
    pub fn fill(mut self, fill: impl FnOnce(&mut [u8])) -> TxFrame<A> {
        let length = self.frame.length;
        self.frame.span.with_bytes(|bytes| {
            if self.may_be_stale {
                bytes.fill(0);
            }
            let (start, rest) = bytes.split_at_mut(HEADER_SIZE);
            start.copy_from_slice(&self.header);
            fill(rest.get_mut(..length - HEADER_SIZE).unwrap_or_default());
        });
        self.frame
    }
}

/// A filled frame: ready to be submitted, or in flight.
#[derive(Debug)]
#[must_use = "the driver transmits no further frames until this one is submitted"]
pub struct TxFrame<A> {
    span: Span<A>,
    /// Size in bytes, with the virtio header; the rest of the span is padding.
    length: usize,
    sequence: usize,
}

impl<A: MirroredMemory> DescriptorChain for TxFrame<A> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        self.span.readable(0..self.length)
    }
}

/// The transmit queue and its ring of bytes.
#[derive(Debug)]
pub(super) struct Tx<M, A> {
    queue: Virtqueue<M, TxFrame<A>>,
    /// Free bytes, one span: frames are split off its front and appended at its end.
    free: Span<A>,
    /// Bytes of completed frames, by the frames' sequence numbers.
    completed: ReorderBuffer<Span<A>>,
    /// Sequence number of the next frame.
    next_sequence: usize,
    /// True if a [`TxReservation`] exists that has not been submitted.
    is_reserved: bool,
    /// True if the interrupt is armed for the completion of all frames. [`Tx::reclaim`] does not disarm it
    /// then.
    is_drain_armed: bool,
    /// Number of bytes of the ring that no frame has used yet. Their previous contents must not leave the
    /// guest.
    unused: usize,
}

impl<M: DmaMemory, A: MirroredMemory> Tx<M, A> {
    /// Sets up the virtqueue, with `memory` as its ring.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
        memory: Span<A>,
    ) -> Result<Self, InitError> {
        let queue: Virtqueue<M, TxFrame<A>> = device.setup_queue(dma, TRANSMITQ, MAX_FRAMES)?;
        if queue.size() < MAX_DESCRIPTORS {
            return Err(InitError::InvalidConfig);
        }
        let completed = ReorderBuffer::new(queue.size().into()).ok_or(InitError::OutOfMemory)?;
        let unused = memory.size();
        Ok(Self {
            queue,
            free: memory,
            completed,
            next_sequence: 0,
            is_reserved: false,
            is_drain_armed: false,
            unused,
        })
    }

    /// Returns true if no frame is in flight.
    pub(super) const fn is_empty(&self) -> bool {
        self.queue.in_flight() == 0
    }

    /// Returns true if the interrupt is armed and the device has used frames.
    pub(super) fn has_used(&self) -> bool {
        self.queue.is_armed() && self.queue.has_used()
    }

    /// Returns true if a frame of `size` bytes fits now.
    fn has_room(&self, size: usize) -> bool {
        let window = self.next_sequence.wrapping_sub(self.completed.next_sequence());
        // A reserved frame takes its descriptors only when it is submitted, so they still count as free here.
        // Hence no second frame may be reserved meanwhile.
        !self.is_reserved
            && self.queue.free() >= MAX_DESCRIPTORS
            && window < self.completed.size()
            && self.free.size() >= ring_size_of(size)
    }

    /// Returns true if a frame of `size` bytes fits, after reclaiming completed frames if needed. If the
    /// frame does not fit, arms the interrupt: the device raises it when it has used half of the frames in
    /// flight.
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
            // The device must know of all frames before the caller waits for their completion.
            self.notify(device);
            let armed = self.queue.arm((self.queue.in_flight() / 2).max(1));
            if !device.checked(armed)? {
                return Ok(false);
            }
            self.reclaim(device)?;
        }
        Ok(true)
    }

    /// Returns true if frames are in flight. Then the interrupt is armed: the device raises it when it has
    /// used all of these frames.
    pub(super) fn arm_tx_empty<T: Transport>(&mut self, device: &mut Device<T>) -> Result<bool, DeviceError> {
        self.is_drain_armed = false;
        self.reclaim(device)?;
        while !self.is_empty() {
            // The device must know of all frames before the caller waits for their completion.
            self.notify(device);
            let armed = self.queue.arm(self.queue.in_flight());
            if !device.checked(armed)? {
                self.is_drain_armed = true;
                return Ok(true);
            }
            self.reclaim(device)?;
        }
        Ok(false)
    }

    /// Reclaims the bytes of completed frames. Disarms the interrupt if there were any, unless it is armed
    /// for the completion of all frames.
    pub(super) fn reclaim<T: Transport>(&mut self, device: &mut Device<T>) -> Result<(), DeviceError> {
        // Ends: no frame is submitted meanwhile.
        loop {
            let used = self.queue.complete();
            let Some(used) = device.checked(used)? else { break };
            self.completed.insert(used.chain.sequence, used.chain.span);
            if self.queue.is_armed() && !self.is_drain_armed {
                self.queue.disarm();
            }
        }
        while let Some(span) = self.completed.pop_next() {
            // Never fails: frames leave the reorder buffer in the order of their bytes, so this span follows
            // the free bytes.
            let _appended: Result<(), Span<A>> = self.free.append(span);
        }
        Ok(())
    }

    /// Reserves a part of the ring for a frame.
    pub(super) fn reserve(
        &mut self,
        size: usize,
        header: [u8; HEADER_SIZE],
    ) -> Result<TxReservation<A>, NetError> {
        if !self.has_room(size) {
            return Err(NetError::Full);
        }
        let span = self.free.split_front(ring_size_of(size)).ok_or(NetError::Full)?;
        let may_be_stale = self.unused > 0;
        self.unused = self.unused.saturating_sub(span.size());
        let frame = TxFrame { span, length: HEADER_SIZE + size, sequence: self.next_sequence };
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.is_reserved = true;
        Ok(TxReservation { frame, header, may_be_stale })
    }

    /// Submits the reserved frame.
    pub(super) fn submit(&mut self, frame: TxFrame<A>) {
        self.is_reserved = false;
        // Does not fail for lack of descriptors: `has_room` has checked them. It fails if the queue is
        // broken; then the device is broken, too, and later calls return the error.
        let _submitted = self.queue.submit(frame);
    }

    /// Notifies the device of submitted frames, unless it suppresses notifications.
    pub(super) fn notify<T: Transport>(&mut self, device: &mut Device<T>) {
        self.queue.notify(device.transport());
    }
}

/// Number of bytes of the ring that a frame of `size` bytes takes.
const fn ring_size_of(size: usize) -> usize {
    (HEADER_SIZE + size).next_multiple_of(CACHE_LINE)
}
