//! The entropy device (virtio 1.2, section 5.4): random bytes from the host, one request at a time.

mod request;
#[cfg(test)]
mod tests;

use virtio_spec::{F, Id};

use self::request::EntropyRequest;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory};
use crate::transport::{InterruptCause, Transport};
use crate::virtqueue::Virtqueue;

/// Index of the device's only queue (section 5.4.2).
const REQUESTQ: u16 = 0;

/// Maximum size of a request, in bytes.
pub const MAX_REQUEST: usize = 256;

/// Number of consecutive empty answers after which the device counts as failed.
const MAX_EMPTY_ANSWERS: u8 = 4;

/// Why there are no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntropyError {
    /// The device has not answered the previous request.
    #[error("a request is pending")]
    Busy,
    /// The size of a request is not 1 to [`MAX_REQUEST`] bytes.
    #[error("invalid size of a request")]
    Size,
    /// The device returned no bytes, several times in a row.
    #[error("the device returns no entropy")]
    Empty,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Driver of an entropy device.
#[derive(Debug)]
pub struct EntropyDriver<T: Transport, M> {
    device: Device<T>,
    queue: Virtqueue<M, EntropyRequest<M>>,
    /// The buffer, unless the device owns it.
    buffer: Option<DmaBuffer<M>>,
    /// Number of consecutive empty answers.
    empty_answers: u8,
}

impl<T: Transport, M: DmaMemory> EntropyDriver<T, M> {
    /// Initializes the device.
    ///
    /// # Errors
    ///
    /// The device is no entropy device, fails initialization, or there is no memory.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>) -> Result<Self, InitError> {
        let mut device = Device::start(transport, dma, Id::Rng, F::empty())?;
        let queue = device.setup_queue(dma, REQUESTQ, 1)?;
        let buffer = DmaBuffer::allocate(dma, MAX_REQUEST, device.permit()).ok_or(InitError::OutOfMemory)?;
        let mut entropy = Self { device, queue, buffer: Some(buffer), empty_answers: 0 };
        entropy.device.set_driver_ok();
        Ok(entropy)
    }

    /// Requests `length` random bytes, which [`EntropyDriver::complete`] returns.
    ///
    /// # Errors
    ///
    /// A request is pending, `length` is invalid, or the device has failed.
    pub fn request(&mut self, length: usize) -> Result<(), EntropyError> {
        self.ensure_usable()?;
        if !(1..=MAX_REQUEST).contains(&length) {
            return Err(EntropyError::Size);
        }
        let buffer = self.buffer.take().ok_or(EntropyError::Busy)?;
        if let Err(refused) = self.queue.submit(EntropyRequest::new(buffer, length)) {
            self.buffer = Some(refused.chain.into_buffer());
            return Err(EntropyError::Busy);
        }
        self.queue.notify(self.device.transport());
        Ok(())
    }

    /// Copies the random bytes of the pending request into `bytes`. Returns their number, which may be less
    /// than requested, even 0. Returns `None` if no request is pending, or if the device has not answered
    /// yet; then an interrupt follows with the answer. Random bytes that do not fit into `bytes` are
    /// discarded.
    ///
    /// # Errors
    ///
    /// The device has failed, or returned no bytes for the fourth time in a row.
    pub fn complete(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, EntropyError> {
        self.ensure_usable()?;
        let used = self.queue.complete_or_arm();
        let Some(used) = self.device.checked(used)? else { return Ok(None) };
        let (buffer, count) = used.chain.finish(used.written, bytes);
        self.buffer = Some(buffer);
        self.empty_answers = if used.written == 0 { self.empty_answers.saturating_add(1) } else { 0 };
        self.ensure_usable().map(|()| Some(count))
    }

    /// Acknowledges an interrupt, after which the request may have been answered.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, EntropyError> {
        let queue = &self.queue;
        Ok(self.device.interrupt(|| queue.has_used())?)
    }

    fn ensure_usable(&self) -> Result<(), EntropyError> {
        self.device.ensure_usable()?;
        if self.empty_answers < MAX_EMPTY_ANSWERS { Ok(()) } else { Err(EntropyError::Empty) }
    }
}
