//! The entropy device (virtio 1.2, section 5.4): random bytes from the host.

#[cfg(test)]
mod tests;

use core::iter;

use virtio_spec::{F, Id};

use crate::device::{Device, DeviceError, InitError};
use crate::memory::{Buffer, Dma, DmaMemory, Segment};
use crate::queue::{Chain, Queue};
use crate::transport::{Cause, Transport};

/// The number of its only queue (section 5.4.2).
const REQUESTS: u16 = 0;

/// Most bytes of a request.
pub const MAX_REQUEST: usize = 256;

/// How many times in a row the device may give nothing until it counts as failed.
const MAX_EMPTY: u8 = 4;

/// What overwrites bytes that have been given out.
const ZEROES: [u8; MAX_REQUEST] = [0; MAX_REQUEST];

/// Why there are no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntropyError {
    /// The device has not answered the request before.
    #[error("a request is under way")]
    Busy,
    /// A request is for at least one byte and at most [`MAX_REQUEST`].
    #[error("a request of that size is not possible")]
    Size,
    /// It gave nothing, several times.
    #[error("the device gives no entropy")]
    Empty,
    /// It has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A buffer to be filled.
#[derive(Debug)]
struct Request<M> {
    buffer: Buffer<M>,
    length: usize,
}

impl<M: DmaMemory> Chain for Request<M> {
    fn segments(&self) -> impl Iterator<Item = Segment> {
        iter::once(self.buffer.writable(0..self.length))
    }
}

/// The driver.
#[derive(Debug)]
pub struct Entropy<T: Transport, M> {
    device: Device<T>,
    queue: Queue<M, Request<M>>,
    /// The buffer, if the device does not have it.
    buffer: Option<Buffer<M>>,
    /// How many answers in a row were empty.
    empty: u8,
}

impl<T: Transport, M: DmaMemory> Entropy<T, M> {
    /// Takes the device into use.
    ///
    /// # Errors
    ///
    /// It is no entropy device, does not behave, or there is no memory.
    pub fn new(transport: T, dma: &impl Dma<Memory = M>) -> Result<Self, InitError> {
        let mut device = Device::start(transport, Id::Rng, F::empty())?;
        let queue = device.queue(dma, REQUESTS, 1)?;
        let buffer = Buffer::allocate(dma, MAX_REQUEST).ok_or(InitError::OutOfMemory)?;
        let mut entropy = Self { device, queue, buffer: Some(buffer), empty: 0 };
        entropy.device.run();
        Ok(entropy)
    }

    /// Asks for `length` bytes. [`Entropy::complete`] gets them.
    ///
    /// # Errors
    ///
    /// There is a request already, the size is not possible, or the device has failed.
    pub fn request(&mut self, length: usize) -> Result<(), EntropyError> {
        self.working()?;
        if !(1..=MAX_REQUEST).contains(&length) {
            return Err(EntropyError::Size);
        }
        let buffer = self.buffer.take().ok_or(EntropyError::Busy)?;
        if let Err(refused) = self.queue.submit(Request { buffer, length }) {
            self.buffer = Some(refused.chain.buffer);
            return Err(EntropyError::Busy);
        }
        self.queue.notify(self.device.transport());
        Ok(())
    }

    /// Takes the bytes of the request: how many, which may be fewer than were asked for, even 0. `None` if the device
    /// has not answered yet, or there is no request; an interrupt comes with the answer. What does not fit is lost.
    ///
    /// # Errors
    ///
    /// The device has failed, or gave nothing for the fourth time in a row.
    pub fn complete(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, EntropyError> {
        self.working()?;
        let used = self.queue.complete_or_arm();
        let Some(used) = self.device.checked(used)? else { return Ok(None) };
        let mut buffer = used.chain.buffer;
        let written = usize::try_from(used.written).unwrap_or(usize::MAX).min(bytes.len());
        let count = bytes.get_mut(..written).map_or(0, |bytes| buffer.read(0, bytes));
        // Nobody shall find here what others use as keys.
        buffer.write(0, &ZEROES);
        self.buffer = Some(buffer);
        self.empty = if used.written == 0 { self.empty.saturating_add(1) } else { 0 };
        self.working().map(|()| Some(count))
    }

    /// Takes an interrupt: the request may have been answered.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<Cause, EntropyError> {
        let queue = &self.queue;
        Ok(self.device.interrupt(|| queue.has_used())?)
    }

    /// Whether the device can be used.
    fn working(&self) -> Result<(), EntropyError> {
        self.device.working()?;
        if self.empty < MAX_EMPTY { Ok(()) } else { Err(EntropyError::Empty) }
    }
}
