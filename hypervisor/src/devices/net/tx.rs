//! `transmitq1`: frames from the guest.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, Permissions};

use super::backend::iovec::MAX_IOVECS;
use super::backend::{Backend, ServeError, TxStatus};
use super::header::{HeaderError, Offloads, VNET_HEADER_SIZE, VnetHeader};
use super::{MAX_FRAME, MIN_FRAME};
use crate::devices::rate_limiter::RateLimiter;
use crate::devices::virtio::chain::{Buffers, Chain, Slices};
use crate::devices::virtio::{DeviceError, QueueProgress, WORK_LIMIT};
use crate::devices::warn_once::WarnOnce;

/// Reason why a frame is dropped.
#[derive(Debug, thiserror::Error)]
enum FrameError {
    #[error("it has {0} bytes")]
    Length(usize),
    #[error("it is scattered over more than {MAX_IOVECS} buffers")]
    Buffers,
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// Device side of `transmitq1`.
#[derive(Debug, Default)]
pub(super) struct Transmitter {
    /// Offloads of the host.
    pub(super) offloads: Offloads,
    /// True if the backend has accepted frames that it has not fully written yet.
    pub(super) is_congested: bool,
    dropped_frame: WarnOnce,
}

impl Transmitter {
    /// Sends the available frames until about [`WORK_LIMIT`] bytes are moved.
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
        let progress = self.send_available(backend, limiter, queue, memory)?;
        // If the backend cannot write all frames now, the worker calls again once the backend's output is
        // writable. Until then the queue is not served.
        self.is_congested = backend.flush()? == TxStatus::WouldBlock;
        Ok(if self.is_congested { QueueProgress::Blocked } else { progress })
    }

    fn send_available(
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
            let Some(chain) = Chain::next(queue, memory)? else { return Ok(QueueProgress::Done) };
            let (head, length) = (chain.head, chain.length());
            work += length;
            match self.send(chain.into_readable()?, backend, memory) {
                Ok(TxStatus::Accepted) => {}
                // The chain returns to the available ring, and is taken again once the backend is writable.
                Ok(TxStatus::WouldBlock) => {
                    put_back(queue);
                    return Ok(QueueProgress::Blocked);
                }
                Err(error) => {
                    put_back(queue);
                    return Err(error);
                }
            }
            limiter.charge(length);
            queue.add_used(memory, head, 0).map_err(DeviceError::from)?;
            if work >= WORK_LIMIT {
                break;
            }
        }
        Ok(QueueProgress::Yielded)
    }

    /// Sends one frame. The boundaries of its buffers carry no meaning (virtio 1.2 §2.7.4).
    fn send(
        &mut self,
        mut buffers: Buffers,
        backend: &mut dyn Backend,
        memory: &GuestMemoryMmap,
    ) -> Result<TxStatus, ServeError> {
        let mut header = [0; VNET_HEADER_SIZE];
        let length = buffers.length();
        if buffers.read(memory, &mut header)? < VNET_HEADER_SIZE {
            return Err(DeviceError::Length(length as u64).into());
        }
        let header = match self.validate(header.into(), &buffers) {
            Ok(header) => header,
            Err(error) => {
                self.dropped_frame.warn(format_args!("network: a frame of the guest's is dropped: {error}"));
                return Ok(TxStatus::Accepted);
            }
        };
        let mut frame = Slices::new();
        buffers.append_slices(0, memory, Permissions::Read, usize::MAX, &mut frame)?;
        Ok(backend.send(header, &frame)?)
    }

    fn validate(&self, header: VnetHeader, frame: &Buffers) -> Result<VnetHeader, FrameError> {
        let length = frame.length();
        if !(MIN_FRAME..=MAX_FRAME).contains(&length) {
            return Err(FrameError::Length(length));
        }
        if frame.count() > MAX_IOVECS {
            return Err(FrameError::Buffers);
        }
        Ok(header.validate(length, self.offloads)?)
    }
}

/// Puts the chain that was taken last back into the available ring.
fn put_back(queue: &mut Queue) {
    queue.set_next_avail(queue.next_avail().wrapping_sub(1));
}
