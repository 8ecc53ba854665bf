//! Where frames go: the device, or this host itself.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::hardware::{Hardware, Offload};

/// Most frames that wait, and most bytes.
const MAX_QUEUED: usize = 256;
const MAX_BYTES: usize = 2 << 20;

/// Something that takes frames. The same as [`Hardware`] gives, for whoever does not know its type.
pub(crate) trait Link {
    /// Whether there is room for a frame of at most `size` bytes.
    fn can_transmit(&mut self, size: usize) -> bool;

    /// Has a frame written in place, always and once, and takes it. Only after there was room for at least its size.
    fn transmit(&mut self, size: usize, offload: Offload, fill: &mut dyn FnMut(&mut [u8]));

    /// Whether there are frames on which nothing is gained by adding to them: the stack is polled when they are gone.
    fn is_sending(&mut self) -> bool;
}

/// The device, if there is one.
pub(crate) struct Device<'a, H> {
    hardware: &'a mut Option<H>,
    /// Whether it has taken a frame.
    pub(crate) has_taken: bool,
}

impl<'a, H> Device<'a, H> {
    pub(crate) const fn new(hardware: &'a mut Option<H>) -> Self {
        Self { hardware, has_taken: false }
    }
}

impl<H: Hardware> Link for Device<'_, H> {
    fn can_transmit(&mut self, size: usize) -> bool {
        self.hardware.as_mut().is_some_and(|hardware| hardware.can_transmit(size))
    }

    fn transmit(&mut self, size: usize, offload: Offload, fill: &mut dyn FnMut(&mut [u8])) {
        if let Some(hardware) = self.hardware {
            self.has_taken = true;
            hardware.transmit(size, offload, fill);
        }
    }

    fn is_sending(&mut self) -> bool {
        self.hardware.as_mut().is_some_and(Hardware::is_sending)
    }
}

/// A queue of frames: packets to this host itself, or answers that wait for the device.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// How many have been taken from it.
    taken: u64,
    /// The last one that was done with, to be used again.
    spare: Vec<u8>,
}

impl Queue {
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        self.taken = self.taken.wrapping_add(1);
        Some(frame)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// A number that changes when a frame is taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// How many bytes the next one has.
    pub(crate) fn next_size(&self) -> Option<usize> {
        self.frames.front().map(Vec::len)
    }

    /// Gives a frame back whose bytes are not needed any more.
    pub(crate) fn recycle(&mut self, frame: Vec<u8>) {
        if frame.capacity() > self.spare.capacity() {
            self.spare = frame;
        }
    }
}

impl Link for Queue {
    /// What goes to this host itself goes at once.
    fn is_sending(&mut self) -> bool {
        false
    }

    /// Makes the room, so that taking the frame cannot fail.
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
    use crate::hardware::Offload;

    #[test]
    fn frames_come_out_in_order_and_are_bounded() {
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
