//! Virtio devices (virtio 1.2 §2) behind the MMIO transport.
//!
//! A device has two parts. The transport has everything that all devices have in common: registers,
//! negotiation of features, set-up of virtqueues, notifications and interrupts. A [`VirtioDevice`] has only
//! the parts that differ between device types: the configuration space, and the meaning of a descriptor
//! chain. The driver is untrusted, and may change guest memory at any time. So a device copies all data that
//! it reads from guest memory, and checks the copy. If a driver violates the specification, only its own
//! device stops and needs a reset.
//!
//! | module | |
//! | --- | --- |
//! | [`VirtioDevice`] | contract of a device: configuration space, and the meaning of its descriptor chains |
//! | [`chain`] | descriptor chains, read from guest memory and checked |
//! | [`used_ring`] | completion of chains, notification suppression |
//! | [`mmio`] | status, features and queue registers, common to all devices; locking and interrupts |

pub mod chain;
pub mod mmio;
pub mod used_ring;

use std::fmt::Debug;
use std::os::fd::RawFd;

use virtio_queue::Queue;
use vm_memory::{GuestMemoryError, GuestMemoryMmap};

pub use self::mmio::{Interrupt, InterruptStatus, MmioTransport};

/// Number of processed bytes after which [`VirtioDevice::process`] yields to other queues. It still completes
/// the descriptor chain that reaches the limit.
pub const WORK_LIMIT: u64 = 256 * 1024;

/// Reason why a device needs a reset: its driver violates the specification, or the host fails.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A ring is malformed.
    #[error("ring: {0}")]
    Ring(#[from] virtio_queue::Error),
    /// A part of a virtqueue is misaligned or not in guest memory.
    #[error("a ring does not lie in memory")]
    RingAddress,
    /// A descriptor chain loops, is longer than its queue, or leaves the descriptor table.
    #[error("malformed descriptor chain")]
    Chain,
    /// A buffer is not in guest memory.
    #[error("buffer: {0}")]
    Memory(#[from] GuestMemoryError),
    /// A device-writable buffer in place of a device-readable one, or the reverse.
    #[error("buffer of the wrong direction")]
    Direction,
    /// The device does not accept a chain with this number of bytes.
    #[error("chain of {0} bytes")]
    Length(u64),
    /// The host fails.
    #[error("host: {0}")]
    Host(#[from] std::io::Error),
}

/// State of a queue after a device has processed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueProgress {
    /// All available chains are used. The queue waits for the driver's next notification.
    Done,
    /// The queue waits for the host ([`VirtioDevice::host_event`]).
    Blocked,
    /// The work limit is reached, and chains may be left: the caller calls again after it has served other
    /// queues.
    Yielded,
}

/// Event of the host for which a queue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// File descriptor, which stays open as long as the device lives. Different queues have different
    /// descriptors.
    pub fd: RawFd,
    /// State of `fd` for which the queue waits.
    pub interest: Interest,
}

/// State of a file descriptor for which a queue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Reading does not block.
    Readable,
    /// Writing does not block.
    Writable,
}

/// Validity of a reported [`HostEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventValidity {
    /// The next read or write does not block.
    Once,
    /// No read or write ever blocks, because the descriptor refers to a regular file.
    Always,
}

/// Stream of the host to which a queue's chains are written.
///
/// The device only buffers the contents of the chains. The transport writes the buffer to the stream, after
/// it has released the device's lock, because the write may block for as long as the stream's reader is slow.
pub trait QueueSink: Debug + Send + Sync {
    /// Calls `process`, which buffers chains, and then writes the buffer to the stream. Concurrent calls are
    /// serialised, so the buffer never holds more than the result of one call of `process`.
    fn write_after(&self, process: &mut dyn FnMut());

    /// Writes the end of the output. No chain follows.
    fn finish(&self);
}

/// A type of device, without its transport.
///
/// The transport calls one method at a time. It calls [`Self::process`] only between [`Self::activate`] and
/// [`Self::reset`], with a queue whose parts are in guest memory.
pub trait VirtioDevice: Debug + Send {
    /// Returns the device ID (virtio 1.2 §5).
    fn device_type(&self) -> u32;

    /// Returns the offered feature bits of this device type. The transport adds the feature bits of the ring
    /// and of the transport.
    fn features(&self) -> u64 {
        0
    }

    /// Returns the maximum number of descriptors of each queue, a power of two.
    fn queue_sizes(&self) -> &'static [u16];

    /// Copies the configuration space, beginning at `offset`, to `data`, which the caller has zeroed.
    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let _: (u64, &mut [u8]) = (offset, data);
    }

    /// Writes to the configuration space.
    fn write_config(&mut self, offset: u64, data: &[u8]) {
        let _: (u64, &[u8]) = (offset, data);
    }

    /// Starts the device with the negotiated features (`DRIVER_OK`).
    fn activate(&mut self, features: u64) {
        let _: u64 = features;
    }

    /// Resets the device. It drops chains that it has taken from the available rings.
    fn reset(&mut self) {}

    /// Processes available chains until about [`WORK_LIMIT`] bytes are processed.
    ///
    /// # Errors
    ///
    /// The driver violates the specification, or the host fails. The device then needs a reset.
    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, DeviceError>;

    /// Returns true if the configuration space has changed since the last call, so that the driver must be
    /// notified.
    fn take_config_change(&mut self) -> bool {
        false
    }

    /// Returns true if the queue carries output of the guest. Such a queue is drained when the guest ends.
    fn is_output(&self, index: usize) -> bool {
        let _: usize = index;
        false
    }

    /// Returns the stream to which the transport writes the output that [`Self::process`] has buffered;
    /// `None` if the queue has no such stream.
    fn sink(&self, index: usize) -> Option<Box<dyn QueueSink>> {
        let _: usize = index;
        None
    }

    /// Returns the event for which a [`QueueProgress::Blocked`] queue waits; `None` if there will be no such
    /// event.
    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let _: usize = index;
        None
    }

    /// Removes rate limits, before the guest's output is drained.
    fn lift_limits(&mut self) {}

    /// Waits, for a limited time, until the data that the guest has sent has left this process. The worker
    /// calls it after the guest has ended and its output is drained.
    fn finish(&mut self) {}

    /// Reports that the queue's [`HostEvent`] has occurred.
    fn host_ready(&mut self, index: usize, readiness: EventValidity) {
        let _: (usize, EventValidity) = (index, readiness);
    }
}

/// Copies a part of a configuration space to `data`. Leaves bytes of `data` beyond the end of the space
/// unchanged.
pub fn read_window(config: &[u8], offset: u64, data: &mut [u8]) {
    let rest = usize::try_from(offset).ok().and_then(|offset| config.get(offset..)).unwrap_or_default();
    for (to, from) in data.iter_mut().zip(rest) {
        *to = *from;
    }
}

#[cfg(test)]
pub(crate) mod test_utils;

#[cfg(test)]
mod tests {
    use super::read_window;

    #[test]
    fn read_window_leaves_bytes_beyond_the_end_unchanged() {
        let read = |offset| {
            let mut data = [0; 4];
            read_window(&[1, 2, 3, 4, 5], offset, &mut data);
            data
        };
        assert_eq!(read(0), [1, 2, 3, 4]);
        assert_eq!(read(3), [4, 5, 0, 0]);
        assert_eq!(read(5), [0; 4]);
        assert_eq!(read(u64::MAX), [0; 4]);
    }
}
