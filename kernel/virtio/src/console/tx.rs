//! The transmit queue: output is copied into buffers that the device does not own.

use alloc::vec::Vec;
use core::iter;

use super::allocate_buffers;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Index of port 0's transmit queue (virtio 1.2, section 5.3.2).
const TRANSMITQ: u16 = 1;

/// Number of buffers for output.
pub(super) const TX_BUFFERS: u16 = 32;

/// Size of a buffer for output, in bytes: most lines fit into one.
pub(super) const TX_BUFFER_SIZE: usize = 512;

/// A buffer with output.
#[derive(Debug)]
struct TxBuffer<M> {
    buffer: DmaBuffer<M>,
    length: usize,
}

impl<M: DmaMemory> DescriptorChain for TxBuffer<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        iter::once(self.buffer.readable(0..self.length))
    }
}

/// The transmit queue and its free buffers.
#[derive(Debug)]
pub(super) struct Tx<M> {
    queue: Virtqueue<M, TxBuffer<M>>,
    /// Buffers that the device does not own.
    free: Vec<DmaBuffer<M>>,
}

impl<M: DmaMemory> Tx<M> {
    /// Sets up the queue and allocates its buffers.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
    ) -> Result<Self, InitError> {
        let queue: Virtqueue<M, TxBuffer<M>> = device.setup_queue(dma, TRANSMITQ, TX_BUFFERS)?;
        let free = allocate_buffers(dma, queue.size(), TX_BUFFER_SIZE, device.permit())?;
        Ok(Self { queue, free })
    }

    /// Returns true if the interrupt is armed and the device has used buffers.
    pub(super) fn has_used(&self) -> bool {
        self.queue.is_armed() && self.queue.has_used()
    }

    /// Returns true if the device has used all buffers.
    pub(super) const fn is_empty(&self) -> bool {
        self.queue.in_flight() == 0
    }

    /// Copies output into free buffers and submits them. Returns the number of bytes copied. If no buffer is
    /// free, arms the interrupt.
    pub(super) fn write<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        bytes: &[u8],
    ) -> Result<usize, DeviceError> {
        self.reclaim(device)?;
        if self.free.is_empty() && !bytes.is_empty() {
            let armed = self.queue.arm(1);
            if device.checked(armed)? {
                self.reclaim(device)?;
            }
        }
        let mut written = 0;
        for part in bytes.chunks(TX_BUFFER_SIZE) {
            let Some(mut buffer) = self.free.pop() else { break };
            let length = buffer.write(0, part);
            match self.queue.submit(TxBuffer { buffer, length }) {
                Ok(_) => written += length,
                // Does not happen: the queue has as many descriptors as there are buffers.
                Err(refused) => self.free.push(refused.chain.buffer),
            }
        }
        self.queue.notify(device.transport());
        Ok(written)
    }

    /// Takes used buffers back. Disarms the interrupt if there were any.
    pub(super) fn reclaim<T: Transport>(&mut self, device: &mut Device<T>) -> Result<(), DeviceError> {
        // Ends: no buffer is submitted meanwhile.
        loop {
            let used = self.queue.complete();
            let Some(used) = device.checked(used)? else { return Ok(()) };
            self.free.push(used.chain.buffer);
            if self.queue.is_armed() {
                self.queue.disarm();
            }
        }
    }
}
