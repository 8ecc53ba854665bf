//! The receive queue: buffers for input. The device owns all of them except the buffer that is being read.

use core::iter;

use super::allocate_buffers;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaBuffer, DmaMemory, DmaSegment};
use crate::transport::Transport;
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Index of port 0's receive queue (virtio 1.2, section 5.3.2).
const RECEIVEQ: u16 = 0;

/// Number of buffers for input, which together fill a page.
pub(super) const RX_BUFFERS: u16 = 16;

/// Size of a buffer for input, in bytes.
pub(super) const RX_BUFFER_SIZE: usize = 256;

/// A buffer that the device fills with input.
#[derive(Debug)]
struct RxBuffer<M>(DmaBuffer<M>);

impl<M: DmaMemory> DescriptorChain for RxBuffer<M> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        iter::once(self.0.writable(0..self.0.size()))
    }
}

/// A used buffer whose input has not been read completely.
#[derive(Debug)]
struct Unread<M> {
    buffer: DmaBuffer<M>,
    position: usize,
    /// More than `position`, and at most the buffer's size.
    end: usize,
}

/// The receive queue and the buffer being read.
#[derive(Debug)]
pub(super) struct Rx<M> {
    queue: Virtqueue<M, RxBuffer<M>>,
    unread: Option<Unread<M>>,
}

impl<M: DmaMemory> Rx<M> {
    /// Sets up the queue and posts all buffers. The caller calls [`Rx::notify`] once the driver is ready.
    pub(super) fn new<T: Transport>(
        device: &mut Device<T>,
        dma: &impl DmaAllocator<Memory = M>,
    ) -> Result<Self, InitError> {
        let queue = device.setup_queue(dma, RECEIVEQ, RX_BUFFERS)?;
        let mut rx = Self { queue, unread: None };
        let buffers = allocate_buffers(dma, rx.queue.size(), RX_BUFFER_SIZE, device.permit())?;
        buffers.into_iter().for_each(|buffer| rx.post(buffer));
        Ok(rx)
    }

    /// Returns true if the device has used buffers.
    pub(super) fn has_used(&self) -> bool {
        self.queue.has_used()
    }

    /// Notifies the device of buffers posted since the last call, unless it suppresses notifications.
    pub(super) fn notify<T: Transport>(&mut self, device: &mut Device<T>) {
        self.queue.notify(device.transport());
    }

    /// Copies as much input into `bytes` as has arrived and fits. Returns the number of bytes copied.
    pub(super) fn read<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        bytes: &mut [u8],
    ) -> Result<usize, DeviceError> {
        let mut count = 0;
        while let Some(room) = bytes.get_mut(count..).filter(|room| !room.is_empty()) {
            if !self.fetch(device)? {
                break;
            }
            count += self.copy(room);
        }
        Ok(count)
    }

    /// Takes the next used buffer, unless a buffer is being read already. Returns false if there is no input;
    /// then the interrupt is armed.
    pub(super) fn fetch<T: Transport>(&mut self, device: &mut Device<T>) -> Result<bool, DeviceError> {
        device.ensure_usable()?;
        // The number of attempts is bounded, since a device could return empty buffers as fast as the driver
        // posts them.
        for _ in 0..RX_BUFFERS {
            if self.unread.is_some() {
                return Ok(true);
            }
            let used = self.queue.complete_or_arm();
            let Some(used) = device.checked(used)? else { return Ok(false) };
            let RxBuffer(buffer) = used.chain;
            match usize::try_from(used.written) {
                Ok(end @ 1..) => self.unread = Some(Unread { buffer, position: 0, end }),
                _ => self.post(buffer),
            }
        }
        Ok(self.unread.is_some())
    }

    /// Copies input out of the buffer being read, and posts the buffer once it has been read completely.
    fn copy(&mut self, bytes: &mut [u8]) -> usize {
        let Some(mut unread) = self.unread.take() else { return 0 };
        let length = bytes.len().min(unread.end - unread.position);
        let (room, _) = bytes.split_at_mut(length);
        let count = unread.buffer.read(unread.position, room);
        unread.position += length;
        if unread.position < unread.end {
            self.unread = Some(unread);
        } else {
            self.post(unread.buffer);
        }
        count
    }

    /// Makes a buffer available to the device.
    fn post(&mut self, buffer: DmaBuffer<M>) {
        // The queue has as many descriptors as there are buffers. If it is broken, the next `fetch` returns
        // the error.
        let _posted = self.queue.submit(RxBuffer(buffer));
    }
}
