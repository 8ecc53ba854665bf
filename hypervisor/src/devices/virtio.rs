//! Virtio devices (virtio 1.2 §2) behind the MMIO transport.
//!
//! A device has two parts. The transport has everything that all devices have in common: registers,
//! negotiation of features, set-up of virtqueues, notifications and interrupts. A [`VirtioDevice`] has only
//! the parts that are special to its type: the configuration space, and the meaning of a descriptor chain.
//! The driver is untrusted, and may change guest memory at any time. So a device copies and checks all data
//! that it reads from there, and a driver that violates the specification only makes its own device need a
//! reset.
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

/// Number of bytes after which [`VirtioDevice::process`] yields to other queues. The descriptor chain that
/// reaches the limit is still completed.
pub const WORK_LIMIT: u64 = 256 * 1024;

/// Reason for which a device needs a reset: its driver violates the specification, or the host fails.
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
    /// A chain of this many bytes is outside the device's limits.
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

/// An event of the host for which a queue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// File descriptor, open as long as the device lives. Different queues have different ones.
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
    /// No read or write ever blocks: the descriptor is that of a regular file.
    Always,
}

/// Stream of the host to which a queue's chains are written.
///
/// The device buffers the contents of the chains; the transport writes the buffer without holding its lock,
/// since the write may block as long as the stream's reader does.
pub trait QueueSink: Debug + Send + Sync {
    /// Calls `process`, which buffers chains, and then writes the buffer to the stream. Calls are executed
    /// one after the other, so the buffer has at most the result of one call of `process`.
    fn write_after(&self, process: &mut dyn FnMut());

    /// Writes the end of the output. No chain follows.
    fn finish(&self);
}

/// A type of device, without its transport.
///
/// The transport calls one method at a time. It calls [`Self::process`] only between [`Self::activate`] and
/// [`Self::reset`], with a queue whose parts are in guest memory.
pub trait VirtioDevice: Debug + Send {
    /// Device ID (virtio 1.2 §5).
    fn device_type(&self) -> u32;

    /// Offered feature bits of this device type. The transport adds those of the ring and the transport.
    fn features(&self) -> u64 {
        0
    }

    /// Maximum number of descriptors of each queue, a power of two.
    fn queue_sizes(&self) -> &'static [u16];

    /// Copies the configuration space from `offset` on to `data`, which is zeroed.
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

    /// Resets the device: chains taken from the available rings are dropped.
    fn reset(&mut self) {}

    /// Processes available chains, up to about [`WORK_LIMIT`].
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

    /// Returns true if the queue carries output of the guest, which is drained when the guest ends.
    fn is_output(&self, index: usize) -> bool {
        let _: usize = index;
        false
    }

    /// Stream to which the transport writes the output that [`Self::process`] has buffered; `None` if the
    /// queue has no such stream.
    fn sink(&self, index: usize) -> Option<Box<dyn QueueSink>> {
        let _: usize = index;
        None
    }

    /// Event for which a [`QueueProgress::Blocked`] queue waits; `None` if it will never occur.
    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let _: usize = index;
        None
    }

    /// Removes limits of bytes and operations, before the guest's output is drained.
    fn lift_limits(&mut self) {}

    /// Waits, for a limited time, until the data that the guest has sent has left the host's buffers. Called
    /// after the guest has ended and its output is drained.
    fn finish(&mut self) {}

    /// Reports that the queue's [`HostEvent`] has occurred.
    fn host_ready(&mut self, index: usize, readiness: EventValidity) {
        let _: (usize, EventValidity) = (index, readiness);
    }
}

/// Copies a part of a configuration space to `data`. Bytes beyond the end of the space are left as they are.
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
