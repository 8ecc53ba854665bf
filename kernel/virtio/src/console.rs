//! The console device: port 0 (virtio 1.2, section 5.3).
//!
//! Output is copied into free buffers: a short line costs one buffer, at most one notification, and no
//! allocation. The interrupt for output stays disarmed: a write reclaims the buffers that the device has
//! used, and arms the interrupt only if it finds no free buffer.

mod rx;
#[cfg(test)]
mod tests;
mod tx;

use alloc::vec::Vec;

use virtio_spec::{F, Id};

use self::rx::Rx;
use self::tx::Tx;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory, DmaPermit};
use crate::transport::{InterruptCause, Transport};

/// Driver of a console device.
#[derive(Debug)]
pub struct ConsoleDriver<T: Transport, M> {
    device: Device<T>,
    rx: Rx<M>,
    tx: Tx<M>,
}

impl<T: Transport, M: DmaMemory> ConsoleDriver<T, M> {
    /// Initializes the device.
    ///
    /// # Errors
    ///
    /// The device is no console, fails initialization, or there is no memory for its buffers.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>) -> Result<Self, InitError> {
        let mut device = Device::start(transport, dma, Id::Console, F::empty())?;
        let rx = Rx::new(&mut device, dma)?;
        let tx = Tx::new(&mut device, dma)?;
        let mut console = Self { device, rx, tx };
        console.device.set_driver_ok();
        console.rx.notify(&mut console.device);
        Ok(console)
    }

    /// Writes as many bytes as fit into free buffers. Returns the number of bytes written. If it is 0
    /// although `bytes` is not empty, an interrupt follows once a buffer is free.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.write(&mut self.device, bytes)
    }

    /// Returns true if the device has used all output buffers. No interrupt signals this.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn is_flushed(&mut self) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.reclaim(&mut self.device)?;
        Ok(self.tx.is_empty())
    }

    /// Reads the next byte, if one has arrived; see [`ConsoleDriver::read`].
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn read_byte(&mut self) -> Result<Option<u8>, DeviceError> {
        let mut byte = [0];
        let count = self.read(&mut byte)?;
        Ok(byte.first().copied().filter(|_| count > 0))
    }

    /// Reads as much input as has arrived and fits. Returns the number of bytes read. If it is 0 although
    /// `bytes` is not empty, an interrupt follows with the next input.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize, DeviceError> {
        let count = self.rx.read(&mut self.device, bytes)?;
        self.rx.notify(&mut self.device);
        Ok(count)
    }

    /// Returns true if input has arrived. If not, an interrupt follows with the next input.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn has_input(&mut self) -> Result<bool, DeviceError> {
        let found = self.rx.fetch(&mut self.device)?;
        self.rx.notify(&mut self.device);
        Ok(found)
    }

    /// Acknowledges an interrupt, after which there may be input, free buffers for output, or both.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let (rx, tx) = (&self.rx, &self.tx);
        self.device.interrupt(|| rx.has_used() || tx.has_used())
    }
}

/// Allocates `count` buffers of `size` bytes.
fn allocate_buffers<M: DmaMemory>(
    dma: &impl DmaAllocator<Memory = M>,
    count: u16,
    size: usize,
    permit: &DmaPermit,
) -> Result<Vec<DmaBuffer<M>>, InitError> {
    let mut buffers = Vec::new();
    buffers.try_reserve_exact(usize::from(count))?;
    let memory = DmaBuffer::allocate(dma, usize::from(count) * size, permit).ok_or(InitError::OutOfMemory)?;
    buffers.extend(memory.split(size));
    Ok(buffers)
}
