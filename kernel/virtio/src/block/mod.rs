//! The block device (virtio 1.2, section 5.2): sectors are read and written, several requests at a time.
//!
//! A request is submitted, which gives a [`Token`]; some time later [`Block::complete`] gives a [`Completion`] with
//! that token. It has the data of a read, which can be copied out without holding the driver's lock, and goes back
//! with [`Block::release`], for its buffers are those of a later request.

pub mod byte_access;
mod config;
mod request;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use virtio_spec::blk::T as RequestType;
use virtio_spec::{F, Id, blk};

use self::config::Limits;
pub use self::request::{Completion, RequestError};
use self::request::{Request, RequestBuffers};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaMemory};
use crate::transport::{InterruptCause, Transport};
pub use crate::virtqueue::Token;
use crate::virtqueue::{SubmitError, Virtqueue};

/// Bytes of a sector, the unit in which devices count, whatever their block size.
pub const SECTOR_SIZE: usize = 512;

/// Most bytes of a request. The device's limits may be narrower: see [`Block::max_transfer`].
pub const MAX_TRANSFER: usize = 64 << 10;

/// The number of the queue that is used (section 5.2.2).
const REQUESTQ: u16 = 0;

/// Why a request was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// As many requests are under way as there can be; an interrupt comes when one has been served.
    #[error("too many requests are under way")]
    Busy,
    /// A part is behind the end of the device.
    #[error("behind the end of the device")]
    OutOfRange,
    /// Not a whole number of blocks, or more than [`Block::max_transfer`].
    #[error("not a number of blocks that can be transferred")]
    Size,
    /// The device is read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device has no such request.
    #[error("the device has no such request")]
    Unsupported,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The driver.
#[derive(Debug)]
pub struct Block<T: Transport, M> {
    device: Device<T>,
    queue: Virtqueue<M, Request<M>>,
    limits: Limits,
    /// Buffers that no request has.
    free: Vec<RequestBuffers<M>>,
}

impl<T: Transport, M: DmaMemory> Block<T, M> {
    /// Takes the device into use, with buffers ([`MAX_TRANSFER`] bytes each, or less if the device takes less) for
    /// `requests` at a time.
    ///
    /// # Errors
    ///
    /// It is no block device, does not behave, or there is no memory.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>, requests: u16) -> Result<Self, InitError> {
        let wanted = blk::F::SIZE_MAX | blk::F::SEG_MAX | blk::F::RO | blk::F::BLK_SIZE | blk::F::FLUSH;
        let mut device = Device::start(transport, Id::Block, F::from(wanted))?;
        let limits = Limits::read(&device)?;
        let size = limits.descriptors().saturating_mul(requests.max(1)).checked_next_power_of_two();
        let queue: Virtqueue<M, Request<M>> = device.setup_queue(dma, REQUESTQ, size.unwrap_or(u16::MAX))?;
        let limits = limits.for_queue(queue.size())?;
        let free = RequestBuffers::allocate(dma, requests.max(1), limits.max_transfer())?;
        let mut block = Self { device, queue, limits, free };
        block.device.set_driver_ok();
        Ok(block)
    }

    /// How many sectors of [`SECTOR_SIZE`] bytes the device has. It may change: see [`Block::interrupt`].
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.limits.capacity
    }

    /// Whether the device cannot be written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.limits.is_read_only
    }

    /// Whether the device has a cache that [`Block::submit_flush`] empties; if not, what was written is safe.
    #[must_use]
    pub const fn has_flush(&self) -> bool {
        self.limits.has_flush
    }

    /// Bytes of a block, a power of two from [`SECTOR_SIZE`] on: requests begin and end at multiples of it.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        self.limits.block_size
    }

    /// Most bytes of a request: a multiple of the block size, at most [`MAX_TRANSFER`].
    #[must_use]
    pub const fn max_transfer(&self) -> usize {
        self.limits.max_transfer()
    }

    /// Begins to read `count` sectors.
    ///
    /// # Errors
    ///
    /// The device does not get the request.
    pub fn submit_read(&mut self, sector: u64, count: usize) -> Result<Token, BlockError> {
        let length = count.checked_mul(SECTOR_SIZE).ok_or(BlockError::Size)?;
        self.limits.check(sector, length)?;
        self.submit(RequestType::In, sector, length, &[])
    }

    /// Begins to write whole sectors. The bytes have been copied when this returns.
    ///
    /// # Errors
    ///
    /// The device does not get the request.
    pub fn submit_write(&mut self, sector: u64, bytes: &[u8]) -> Result<Token, BlockError> {
        if self.is_read_only() {
            return Err(BlockError::ReadOnly);
        }
        self.limits.check(sector, bytes.len())?;
        self.submit(RequestType::Out, sector, bytes.len(), bytes)
    }

    /// Begins to make safe what has been written by requests that are complete.
    ///
    /// # Errors
    ///
    /// The device does not get the request; [`BlockError::Unsupported`] if it need not be asked ([`Block::has_flush`]).
    pub fn submit_flush(&mut self) -> Result<Token, BlockError> {
        if !self.has_flush() {
            return Err(BlockError::Unsupported);
        }
        self.submit(RequestType::Flush, 0, 0, &[])
    }

    /// A request that the device is done with, if there is one. If not, an interrupt comes with the next.
    ///
    /// # Errors
    ///
    /// The device has failed: no request will be completed any more.
    pub fn complete(&mut self) -> Result<Option<Completion<M>>, DeviceError> {
        self.device.ensure_usable()?;
        let used = self.queue.complete_or_arm();
        let used = self.device.checked(used)?;
        Ok(used.map(|used| used.chain.finish(used.token, used.written)))
    }

    /// Takes back what a completion has; other requests can use it.
    pub fn release(&mut self, completion: Completion<M>) {
        // Does not allocate: there was room for all of them.
        self.free.push(completion.into_slot());
    }

    /// Takes an interrupt: requests may have been served, or the capacity may have changed.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let queue = &self.queue;
        let cause = self.device.interrupt(|| queue.has_used())?;
        // A configuration that changes all the time is read at the next interrupt.
        if let (true, Ok(capacity)) = (cause.config, Limits::read_capacity(&self.device)) {
            self.limits.capacity = capacity;
        }
        Ok(cause)
    }

    /// Looks whether the device says that it has failed, for those who have waited too long.
    ///
    /// # Errors
    ///
    /// It has.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.device.check_status()
    }

    /// Submits a request with `length` bytes of data.
    fn submit(
        &mut self,
        kind: RequestType,
        sector: u64,
        length: usize,
        bytes: &[u8],
    ) -> Result<Token, BlockError> {
        self.device.ensure_usable()?;
        let slot = self.free.pop().ok_or(BlockError::Busy)?;
        let request = Request::new(slot, kind, sector, length, self.limits.segment_size).with_data(bytes);
        let token = self.queue.submit(request).map_err(|refused| {
            self.free.push(refused.chain.into_slot());
            match refused.error {
                SubmitError::Full => BlockError::Busy,
                SubmitError::Broken(error) => DeviceError::from(error).into(),
            }
        })?;
        self.queue.notify(self.device.transport());
        Ok(token)
    }
}
