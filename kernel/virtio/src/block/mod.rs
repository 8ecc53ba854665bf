//! The block device (virtio 1.2, section 5.2): reads, writes and flushes, several requests at a time.
//!
//! Submitting a request returns a [`Token`]; [`BlockDriver::complete`] later returns a [`CompletedRequest`] with that
//! token. It owns the data of a read, which can be copied out without the driver's lock, and is returned with
//! [`BlockDriver::release`], since later requests use its buffers.

pub mod byte_access;
mod config;
mod request;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use virtio_spec::blk::T as RequestType;
use virtio_spec::{F, Id, blk};

use self::config::DeviceLimits;
use self::request::{BlockRequest, RequestBuffers};
pub use self::request::{BlockRequestError, CompletedRequest};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaMemory};
use crate::transport::{InterruptCause, Transport};
pub use crate::virtqueue::Token;
use crate::virtqueue::{SubmitError, Virtqueue};

/// Size of a sector in bytes: the unit of the protocol, whatever the device's block size.
pub const SECTOR_SIZE: usize = 512;

/// Maximum size of a request's data, in bytes. The device's limit may be lower: see [`BlockDriver::max_transfer`].
pub const MAX_TRANSFER: usize = 64 << 10;

/// Index of the virtqueue in use (section 5.2.2).
const REQUESTQ: u16 = 0;

/// Why a request was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The maximum number of requests is in flight; an interrupt follows when one completes.
    #[error("too many requests in flight")]
    Busy,
    /// The request exceeds the end of the device.
    #[error("beyond the end of the device")]
    OutOfRange,
    /// The size is no multiple of the block size, or exceeds [`BlockDriver::max_transfer`].
    #[error("invalid size of a transfer")]
    Size,
    /// The device is read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device does not support the request.
    #[error("the device does not support the request")]
    Unsupported,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Driver of a block device.
#[derive(Debug)]
pub struct BlockDriver<T: Transport, M> {
    device: Device<T>,
    queue: Virtqueue<M, BlockRequest<M>>,
    limits: DeviceLimits,
    /// Buffers that no request owns.
    free: Vec<RequestBuffers<M>>,
}

impl<T: Transport, M: DmaMemory> BlockDriver<T, M> {
    /// Initializes the device, with buffers for `requests` requests of up to [`MAX_TRANSFER`] bytes, or the
    /// device's limit if that is lower.
    ///
    /// # Errors
    ///
    /// The device is no block device, fails initialization, or there is no memory.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>, requests: u16) -> Result<Self, InitError> {
        let wanted = blk::F::SIZE_MAX | blk::F::SEG_MAX | blk::F::RO | blk::F::BLK_SIZE | blk::F::FLUSH;
        let mut device = Device::start(transport, Id::Block, F::from(wanted))?;
        let limits = DeviceLimits::read(&device)?;
        let size = limits.descriptors().saturating_mul(requests.max(1)).checked_next_power_of_two();
        let queue: Virtqueue<M, BlockRequest<M>> =
            device.setup_queue(dma, REQUESTQ, size.unwrap_or(u16::MAX))?;
        let limits = limits.for_queue(queue.size())?;
        let free = RequestBuffers::allocate(dma, requests.max(1), limits.max_transfer(), device.permit())?;
        let mut block = Self { device, queue, limits, free };
        block.device.set_driver_ok();
        Ok(block)
    }

    /// Number of sectors of [`SECTOR_SIZE`] bytes. It may change: see [`BlockDriver::interrupt`].
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.limits.capacity
    }

    /// Whether the device is read-only.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.limits.is_read_only
    }

    /// Whether the device has a write-back cache that [`BlockDriver::submit_flush`] flushes; without one, completed
    /// writes are durable.
    #[must_use]
    pub const fn has_flush(&self) -> bool {
        self.limits.has_flush
    }

    /// Block size in bytes, a power of two of at least [`SECTOR_SIZE`]: requests begin and end at multiples of it.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        self.limits.block_size
    }

    /// Maximum size of a request's data in bytes: a multiple of the block size, at most [`MAX_TRANSFER`].
    #[must_use]
    pub const fn max_transfer(&self) -> usize {
        self.limits.max_transfer()
    }

    /// Submits a read of `count` sectors.
    ///
    /// # Errors
    ///
    /// The request is not submitted.
    pub fn submit_read(&mut self, sector: u64, count: usize) -> Result<Token, BlockError> {
        let length = count.checked_mul(SECTOR_SIZE).ok_or(BlockError::Size)?;
        self.limits.check(sector, length)?;
        self.submit(RequestType::In, sector, length, &[])
    }

    /// Submits a write of whole sectors. The bytes have been copied when this returns.
    ///
    /// # Errors
    ///
    /// The request is not submitted.
    pub fn submit_write(&mut self, sector: u64, bytes: &[u8]) -> Result<Token, BlockError> {
        if self.is_read_only() {
            return Err(BlockError::ReadOnly);
        }
        self.limits.check(sector, bytes.len())?;
        self.submit(RequestType::Out, sector, bytes.len(), bytes)
    }

    /// Submits a flush: completed writes become durable.
    ///
    /// # Errors
    ///
    /// The request is not submitted; [`BlockError::Unsupported`] if there is no cache ([`BlockDriver::has_flush`]).
    pub fn submit_flush(&mut self) -> Result<Token, BlockError> {
        if !self.has_flush() {
            return Err(BlockError::Unsupported);
        }
        self.submit(RequestType::Flush, 0, 0, &[])
    }

    /// Returns the next request that the device has served, if there is one. If not, an interrupt follows.
    ///
    /// # Errors
    ///
    /// The device has failed: no request completes any more.
    pub fn complete(&mut self) -> Result<Option<CompletedRequest<M>>, DeviceError> {
        self.device.ensure_usable()?;
        let used = self.queue.complete_or_arm();
        let used = self.device.checked(used)?;
        Ok(used.map(|used| used.chain.finish(used.token, used.written)))
    }

    /// Returns the completion's buffers for later requests.
    pub fn release(&mut self, completion: CompletedRequest<M>) {
        // Does not allocate: the vector's capacity is the number of buffers.
        self.free.push(completion.into_buffers());
    }

    /// Acknowledges an interrupt, after which requests may have completed or the capacity may have changed.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let queue = &self.queue;
        let cause = self.device.interrupt(|| queue.has_used())?;
        // A configuration that never stops changing is read again at the next interrupt.
        if let (true, Ok(capacity)) = (cause.config, DeviceLimits::read_capacity(&self.device)) {
            self.limits.capacity = capacity;
        }
        Ok(cause)
    }

    /// Checks `DEVICE_NEEDS_RESET`, for callers whose request has timed out.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.device.check_status()
    }

    /// Submits a request with `length` bytes of data.
    fn submit(
        &mut self,
        request_type: RequestType,
        sector: u64,
        length: usize,
        bytes: &[u8],
    ) -> Result<Token, BlockError> {
        self.device.ensure_usable()?;
        let slot = self.free.pop().ok_or(BlockError::Busy)?;
        let request =
            BlockRequest::new(slot, request_type, sector, length, self.limits.segment_size).with_data(bytes);
        let token = self.queue.submit(request).map_err(|refused| {
            self.free.push(refused.chain.into_buffers());
            match refused.error {
                SubmitError::Full => BlockError::Busy,
                SubmitError::Broken(error) => DeviceError::from(error).into(),
            }
        })?;
        self.queue.notify(self.device.transport());
        Ok(token)
    }
}
