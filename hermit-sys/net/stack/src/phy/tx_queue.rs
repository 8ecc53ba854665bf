//! Transmit queues: the queue of the device, and one in memory.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::phy::device::{NetDevice, Offload};

/// Maximum number of queued frames, and of their bytes.
const MAX_QUEUED: usize = 256;
const MAX_BYTES: usize = 2 << 20;

/// A transmit queue: the object-safe part of [`NetDevice`], for code that is not generic over the device.
pub(crate) trait Link {
    /// True if the queue has room for a frame of at most `size` bytes.
    fn can_transmit(&mut self, size: usize) -> bool;

    /// Calls `fill` to write a frame in place, and queues it: see [`NetDevice::transmit`]. Called only after
    /// `can_transmit` for at least this size. `fill` is called at most once.
    fn transmit(&mut self, size: usize, offload: Offload, fill: &mut dyn FnMut(&mut [u8]));

    /// True if queued frames are not transmitted yet. The kernel polls the stack when they have been
    /// transmitted.
    fn is_sending(&mut self) -> bool;
}

/// Queue of the device, if there is a device.
pub(crate) struct DeviceLink<'a, H> {
    device: &'a mut Option<H>,
    /// True if a frame has been queued.
    pub(crate) has_taken: bool,
}

impl<'a, H> DeviceLink<'a, H> {
    pub(crate) const fn new(device: &'a mut Option<H>) -> Self {
        Self { device, has_taken: false }
    }
}

impl<H: NetDevice> Link for DeviceLink<'_, H> {
    fn can_transmit(&mut self, size: usize) -> bool {
        self.device.as_mut().is_some_and(|device| device.can_transmit(size))
    }

    fn transmit(&mut self, size: usize, offload: Offload, fill: &mut dyn FnMut(&mut [u8])) {
        if let Some(device) = self.device {
            self.has_taken = true;
            device.transmit(size, offload, fill);
        }
    }

    fn is_sending(&mut self) -> bool {
        self.device.as_mut().is_some_and(NetDevice::is_sending)
    }
}

/// A bounded queue of frames in memory, which wait for the device.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A buffer to reuse for the next frame.
    spare: Vec<u8>,
}

impl Queue {
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Size of the next frame in bytes.
    pub(crate) fn next_size(&self) -> Option<usize> {
        self.frames.front().map(Vec::len)
    }

    /// Keeps the buffer of a handled frame for reuse.
    pub(crate) fn recycle(&mut self, frame: Vec<u8>) {
        if frame.capacity() > self.spare.capacity() {
            self.spare = frame;
        }
    }
}

impl Link for Queue {
    /// Always `false`: senders need not hold data back for this queue.
    fn is_sending(&mut self) -> bool {
        false
    }

    /// Also reserves memory, so that queueing the frame cannot fail.
    fn can_transmit(&mut self, size: usize) -> bool {
        let missing = size.saturating_sub(self.spare.len());
        self.frames.len() < MAX_QUEUED
            && self.bytes + size <= MAX_BYTES
            && self.spare.try_reserve(missing).is_ok()
            && self.frames.try_reserve(1).is_ok()
    }

    fn transmit(&mut self, size: usize, _offload: Offload, fill: &mut dyn FnMut(&mut [u8])) {
        let mut frame = core::mem::take(&mut self.spare);
        frame.resize(size, 0);
        fill(&mut frame);
        self.bytes += size;
        self.frames.push_back(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, MAX_QUEUED, Queue};
    use crate::phy::device::Offload;

    #[test]
    fn queue_is_fifo_and_bounded() {
        let mut queue = Queue::default();
        let mut count = 0_u8;
        while queue.can_transmit(100) {
            queue.transmit(60, Offload::default(), &mut |bytes| bytes.fill(count));
            count = count.wrapping_add(1);
        }
        for number in 0..MAX_QUEUED {
            assert_eq!(queue.next_size(), Some(60));
            let frame = queue.pop().unwrap();
            assert!(frame.iter().all(|&byte| usize::from(byte) == number));
            queue.recycle(frame);
        }
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}
