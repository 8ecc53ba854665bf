//! The block device (virtio 1.2, section 5.2): reads, writes and flushes, several requests at a time.
//!
//! Submitting a request returns a [`Ticket`]. When the device has served the request, [`BlockDriver::take`]
//! exchanges the ticket for a [`CompletedRequest`]. This value owns the data of a read, so the data can be
//! copied out without the driver's lock. [`BlockDriver::release`] then returns its buffers to the driver, for
//! later requests. The waker of a request is woken when the device has served it: [`BlockDriver::next_waker`]
//! returns the wakers one by one, so that the caller can wake them without the lock, too.
//!
//! A request can be submitted if there are buffers for it. At first there are buffers for one request, and
//! further ones can be added ([`BlockDriver::plan`]). The driver does not decide which waiting task gets the
//! buffers.

pub mod byte_access;
mod config;
mod request;
mod slots;
#[cfg(test)]
mod tests;

use core::task::Waker;

use virtio_spec::blk::T as RequestType;
use virtio_spec::{F, Id, blk};

use self::config::DeviceLimits;
use self::request::BlockRequest;
pub use self::request::{BlockRequestError, CompletedRequest};
pub use self::slots::Ticket;
use self::slots::{MAX_REQUESTS, Slots};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DataBuffer, DataPlan, DmaAllocator, DmaMemory};
use crate::transport::{InterruptCause, Transport};
use crate::virtqueue::{SubmitError, Virtqueue};

/// Size of a sector in bytes: the unit of the protocol, whatever the device's block size.
pub const SECTOR_SIZE: usize = 512;

/// Maximum size of a request's data, in bytes. The device's limit may be lower: see
/// [`BlockDriver::max_transfer`].
pub const MAX_TRANSFER: usize = 64 << 10;

/// Index of the virtqueue in use (section 5.2.2).
const REQUESTQ: u16 = 0;

/// Why a request was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// All buffers are in use. [`BlockDriver::plan`] returns a plan if more buffers can be added.
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
    slots: Slots<M>,
}

impl<T: Transport, M: DmaMemory> BlockDriver<T, M> {
    /// Initializes the device. At most `requests` requests, and at most 64, are in flight at a time. Each has
    /// at most [`MAX_TRANSFER`] bytes of data. The device may have lower limits.
    ///
    /// # Errors
    ///
    /// The device is no block device, fails initialization, or there is no memory.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>, requests: u16) -> Result<Self, InitError> {
        let wanted = blk::F::SIZE_MAX | blk::F::SEG_MAX | blk::F::RO | blk::F::BLK_SIZE | blk::F::FLUSH;
        let mut device = Device::start(transport, dma, Id::Block, F::from(wanted))?;
        let limits = DeviceLimits::read(&device)?;
        let size = limits.descriptors().saturating_mul(requests.max(1)).checked_next_power_of_two();
        let queue: Virtqueue<M, BlockRequest<M>> =
            device.setup_queue(dma, REQUESTQ, size.unwrap_or(u16::MAX))?;
        let limits = limits.for_queue(queue.size())?;
        let requests = requests.min(queue.size() / limits.descriptors()).clamp(1, MAX_REQUESTS);
        let slots = Slots::allocate(dma, requests, limits.max_transfer(), device.permit())?;
        let mut block = Self { device, queue, limits, slots };
        block.device.set_driver_ok();
        // Completions raise interrupts from now on.
        block.collect();
        Ok(block)
    }

    /// Number of sectors of [`SECTOR_SIZE`] bytes. It may change: see [`BlockDriver::interrupt`].
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.limits.capacity
    }

    /// Returns true if the device is read-only.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.limits.is_read_only
    }

    /// Returns true if the device has a write-back cache that [`BlockDriver::submit_flush`] flushes. Without
    /// one, completed writes are durable.
    #[must_use]
    pub const fn has_flush(&self) -> bool {
        self.limits.has_flush
    }

    /// Block size in bytes, a power of two of at least [`SECTOR_SIZE`]: requests begin and end at multiples
    /// of it.
    #[must_use]
    pub const fn block_size(&self) -> usize {
        self.limits.block_size
    }

    /// Maximum size of a request's data in bytes: a multiple of the block size, at most [`MAX_TRANSFER`].
    #[must_use]
    pub const fn max_transfer(&self) -> usize {
        self.limits.max_transfer()
    }

    /// Plans the buffers for one more request in flight. Returns `None` if the buffers that exist or are
    /// planned suffice for all requests that the queue can hold. The caller allocates the buffers without the
    /// driver's lock, and calls [`Self::add`] once for each plan.
    #[must_use]
    pub fn plan(&mut self) -> Option<DataPlan> {
        self.slots.plan().then(|| DataPlan::new(self.limits.max_transfer(), self.device.permit()))
    }

    /// Adds a buffer that was [planned](Self::plan). Passing `None` gives up the plan, because there was no
    /// memory for the buffer.
    pub fn add(&mut self, buffer: Option<DataBuffer<M>>) {
        self.slots.grow(buffer.map(|buffer| buffer.0));
    }

    /// Submits a read of `count` sectors. The waker is woken when the device has served the request.
    ///
    /// # Errors
    ///
    /// The request is not submitted.
    pub fn submit_read(&mut self, sector: u64, count: usize, waker: &Waker) -> Result<Ticket, BlockError> {
        let length = count.checked_mul(SECTOR_SIZE).ok_or(BlockError::Size)?;
        self.limits.check(sector, length)?;
        self.submit((RequestType::In, sector, length), &[], waker)
    }

    /// Submits a write of whole sectors. The bytes have been copied when this returns. The waker is woken
    /// when the device has served the request.
    ///
    /// # Errors
    ///
    /// The request is not submitted.
    pub fn submit_write(&mut self, sector: u64, bytes: &[u8], waker: &Waker) -> Result<Ticket, BlockError> {
        if self.is_read_only() {
            return Err(BlockError::ReadOnly);
        }
        self.limits.check(sector, bytes.len())?;
        self.submit((RequestType::Out, sector, bytes.len()), bytes, waker)
    }

    /// Submits a flush, which makes completed writes durable. The waker is woken when the device has served
    /// the request.
    ///
    /// # Errors
    ///
    /// The request is not submitted. The error is [`BlockError::Unsupported`] if there is no cache
    /// ([`BlockDriver::has_flush`]).
    pub fn submit_flush(&mut self, waker: &Waker) -> Result<Ticket, BlockError> {
        if !self.has_flush() {
            return Err(BlockError::Unsupported);
        }
        self.submit((RequestType::Flush, 0, 0), &[], waker)
    }

    /// Returns a request that the device has served. The caller reads the data and then
    /// [releases](Self::release) the request. If the device has not served the request yet, returns `None`,
    /// and the waker is woken when it has.
    ///
    /// # Errors
    ///
    /// The device has failed: no request completes any more.
    pub fn take(
        &mut self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Result<Option<CompletedRequest<M>>, DeviceError> {
        let served = self.slots.take(ticket);
        if served.is_none() {
            self.device.ensure_usable()?;
            self.slots.register(ticket, waker);
        }
        Ok(served)
    }

    /// Takes back the buffers of a completed request, for later requests.
    pub fn release(&mut self, completion: CompletedRequest<M>) {
        let (ticket, buffers) = completion.into_parts();
        self.slots.free(ticket, buffers);
    }

    /// Removes and returns the next waker of a request that the device has served. If the device has failed,
    /// returns the wakers of all requests one by one.
    #[must_use]
    pub fn next_waker(&mut self) -> Option<Waker> {
        let has_failed = self.device.ensure_usable().is_err();
        self.slots.next_waker(has_failed)
    }

    /// Acknowledges an interrupt, and takes the requests that the device has served out of the queue.
    /// Afterwards the caller must wake the wakers ([`Self::next_waker`]), even if this fails. The capacity
    /// may have changed.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let queue = &self.queue;
        let cause = self.device.interrupt(|| queue.has_used());
        // Collects also the requests that the device served before it failed.
        self.collect();
        let cause = cause?;
        // If the configuration does not stop changing, the old capacity stays until the next interrupt.
        if let (true, Ok(capacity)) = (cause.config, DeviceLimits::read_capacity(&self.device)) {
            self.limits.capacity = capacity;
        }
        self.device.ensure_usable().map(|()| cause)
    }

    /// Takes the requests that the device has served out of the queue, and arms the interrupt for the next
    /// one.
    fn collect(&mut self) {
        loop {
            let used = self.queue.complete_or_arm();
            let Ok(Some(used)) = self.device.checked(used) else { return };
            self.slots.finish(used.chain.finish(used.written));
        }
    }

    /// Checks `DEVICE_NEEDS_RESET`, for callers whose request has timed out.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.device.check_status()
    }

    /// Submits a request: its type, its first sector, and the size of its data in bytes. `bytes` is the data
    /// of a write.
    fn submit(
        &mut self,
        (request_type, sector, length): (RequestType, u64, usize),
        bytes: &[u8],
        waker: &Waker,
    ) -> Result<Ticket, BlockError> {
        self.device.ensure_usable()?;
        let (ticket, buffers) = self.slots.start(waker).ok_or(BlockError::Busy)?;
        let segment_size = self.limits.segment_size;
        let request = BlockRequest::new(ticket, buffers, request_type, sector, length, segment_size);
        if let Err(refused) = self.queue.submit(request.with_data(bytes)) {
            let (ticket, buffers) = refused.chain.into_parts();
            self.slots.free(ticket, buffers);
            return Err(match refused.error {
                SubmitError::Full => BlockError::Busy,
                SubmitError::Broken(error) => DeviceError::from(error).into(),
            });
        }
        self.queue.notify(self.device.transport());
        Ok(ticket)
    }
}
