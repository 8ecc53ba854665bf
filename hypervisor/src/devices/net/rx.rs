//! `receiveq1`: frames on their way to the guest.
//!
//! The driver makes empty buffers available in advance, and the device fills them with frames of the backend.
//! The length of a frame is unknown until it is received, so the device first collects buffers for the
//! longest possible frame. If the guest has made enough available, the host writes the frame directly into
//! them. Otherwise the device receives the frame into a bounce buffer, and copies it to the guest's buffers
//! once they are large enough. With mergeable buffers a frame may span several descriptor chains; without
//! them it must fit into the first one.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, VolatileSlice};

use super::MAX_FRAME;
use super::backend::iovec::{MAX_IOVECS, scatter};
use super::backend::{Backend, ReceivedFrame, ServeError};
use super::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use super::rx_buffers::RxBuffers;
use crate::devices::rate_limiter::RateLimiter;
use crate::devices::virtio::chain::Slices;
use crate::devices::virtio::{DeviceError, QueueProgress, WORK_LIMIT};
use crate::devices::warn_once::WarnOnce;

/// Negotiated features and limits of the guest's receive side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RxFeatures {
    /// `VIRTIO_NET_F_MRG_RXBUF`: a frame may span several descriptor chains.
    pub(super) has_mergeable_buffers: bool,
    /// Offloads of the driver.
    pub(super) offloads: Offloads,
    /// Maximum size in bytes of a frame that is not larger than the MTU permits.
    pub(super) max_mtu_frame: usize,
}

impl RxFeatures {
    /// Maximum size in bytes of a frame.
    fn max_frame(&self) -> usize {
        if self.offloads.has_segmentation() { MAX_FRAME } else { self.max_mtu_frame.min(MAX_FRAME) }
    }
}

/// Device side of `receiveq1`.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) features: RxFeatures,
    buffers: RxBuffers,
    /// Bounce buffer. It is allocated at the first use, and empty before.
    bounce_buffer: Box<[u8]>,
    /// The frame in the bounce buffer, if there is one.
    bounced: Option<ReceivedFrame>,
    dropped_frame: WarnOnce,
}

/// Result of one attempt to receive a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RxStep {
    /// A frame of this many bytes was received, and delivered or dropped.
    Frame(usize),
    /// The guest must make more buffers available.
    NoBuffers,
    /// The backend has no frame.
    NoFrame,
}

impl Receiver {
    /// Drops all state that belongs to the driver before the reset.
    pub(super) fn reset(&mut self) {
        self.buffers = RxBuffers::default();
        self.bounced = None;
    }

    /// Receives frames until about [`WORK_LIMIT`] bytes are moved.
    ///
    /// # Errors
    ///
    /// The driver violates the specification, or the backend is disconnected.
    pub(super) fn serve(
        &mut self,
        backend: &mut dyn Backend,
        limiter: &mut RateLimiter,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, ServeError> {
        let mut work = 0;
        for _ in 0..queue.size() {
            if !limiter.admits() {
                return Ok(QueueProgress::Blocked);
            }
            match self.step(backend, queue, memory)? {
                RxStep::Frame(bytes) => {
                    limiter.charge(bytes as u64);
                    work += bytes as u64;
                }
                RxStep::NoBuffers => return Ok(QueueProgress::Done),
                RxStep::NoFrame => return Ok(QueueProgress::Blocked),
            }
            if work >= WORK_LIMIT {
                break;
            }
        }
        Ok(QueueProgress::Yielded)
    }

    fn step(
        &mut self,
        backend: &mut dyn Backend,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<RxStep, ServeError> {
        // One byte more than the longest valid frame: a frame that fills this size is too long.
        let size = self.features.max_frame() + 1;
        self.buffers.refill(size + VNET_HEADER_SIZE, queue, memory)?;
        if self.bounced.is_none() {
            if self.buffers.is_empty() {
                return Ok(RxStep::NoBuffers);
            }
            if !backend.may_have_frame() {
                return Ok(RxStep::NoFrame);
            }
            let Some(slices) = self.direct_slices(size, memory)? else {
                self.bounced = backend.receive(&[self.bounce_slice()])?;
                return Ok(self.deliver_bounced(queue, memory)?);
            };
            let Some(frame) = backend.receive(&slices)? else { return Ok(RxStep::NoFrame) };
            return Ok(self.complete_direct(frame, queue, memory)?);
        }
        Ok(self.deliver_bounced(queue, memory)?)
    }

    /// Returns the guest's buffers if they hold a frame of `size` bytes and one system call can fill them.
    fn direct_slices<'memory>(
        &self,
        size: usize,
        memory: &'memory GuestMemoryMmap,
    ) -> Result<Option<Slices<'memory>>, DeviceError> {
        if self.buffers.capacity(self.features.has_mergeable_buffers) < size + VNET_HEADER_SIZE {
            return Ok(None);
        }
        // Requests one slice more than the limit, to detect that there are too many. So a guest with tiny
        // buffers causes little work.
        let slices = self.buffers.slices(size, MAX_IOVECS + 1, memory)?;
        Ok((slices.len() <= MAX_IOVECS).then_some(slices))
    }

    /// Returns the bounce buffer, which holds a frame of any size.
    fn bounce_slice(&mut self) -> VolatileSlice<'_> {
        if self.bounce_buffer.is_empty() {
            self.bounce_buffer = vec![0; MAX_FRAME + 1].into_boxed_slice();
        }
        VolatileSlice::from(&mut *self.bounce_buffer)
    }

    /// Completes a frame that the host has written into the guest's buffers.
    fn complete_direct(
        &mut self,
        frame: ReceivedFrame,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<RxStep, DeviceError> {
        if let Some(header) = self.validate(frame) {
            self.buffers.complete(header, frame.length, queue, memory)?;
        }
        Ok(RxStep::Frame(frame.length))
    }

    /// Copies the frame in the bounce buffer to the guest's buffers and completes it, if they are large
    /// enough.
    fn deliver_bounced(
        &mut self,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<RxStep, DeviceError> {
        let Some(frame) = self.bounced.take() else { return Ok(RxStep::NoFrame) };
        let ReceivedFrame { length, .. } = frame;
        let Some(header) = self.validate(frame) else { return Ok(RxStep::Frame(length)) };
        let is_mergeable = self.features.has_mergeable_buffers;
        if self.buffers.capacity(is_mergeable) < length + VNET_HEADER_SIZE {
            // More buffers would not help: the guest cannot add any, or the frame must fit into the first
            // chain.
            if self.buffers.has_whole_queue(queue) || (!is_mergeable && !self.buffers.is_empty()) {
                self.dropped_frame.warn(format_args!(
                    "network: the guest's buffers are too small for a frame of {length} bytes"
                ));
                return Ok(RxStep::Frame(length));
            }
            self.bounced = Some(frame);
            return Ok(RxStep::NoBuffers);
        }
        let bytes = self.bounce_buffer.get(..length).unwrap_or_default();
        scatter(bytes, &self.buffers.slices(length, usize::MAX, memory)?);
        self.buffers.complete(header, length, queue, memory)?;
        Ok(RxStep::Frame(length))
    }

    /// Returns the header that the guest receives; `None` if the frame must be dropped.
    fn validate(&mut self, ReceivedFrame { header, length }: ReceivedFrame) -> Option<VnetHeader> {
        let max = self.features.max_frame();
        if length > max {
            self.dropped_frame.warn(format_args!(
                "network: a frame of {length} bytes exceeds the guest's maximum of {max} and is dropped"
            ));
            return None;
        }
        match header.validate(length, self.features.offloads) {
            Ok(header) => Some(header),
            Err(error) => {
                self.dropped_frame.warn(format_args!("network: a frame for the guest is dropped: {error}"));
                None
            }
        }
    }
}
