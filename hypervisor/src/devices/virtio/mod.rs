//! virtio devices behind memory-mapped registers (virtio 1.2, sections 2 and 4.2).
//!
//! A device ([`VirtioDevice`]) knows its configuration and what the chains in its queues mean. The
//! register machine ([`mmio::Registers`]) holds what all devices have in common: status, features, queues. A
//! [`Slot`] is a device in its place on the bus: the machine behind a lock, the descriptors by which the guest's
//! notifications arrive, and the interrupt line.

pub mod chain;
mod interrupt;
pub mod mmio;
mod slot;
pub mod used;

use std::fmt::Debug;
use std::os::fd::RawFd;

use virtio_queue::Queue;
use vm_memory::{GuestMemoryError, GuestMemoryMmap};

pub use self::interrupt::{Interrupt, InterruptStatus};
pub use self::slot::Slot;

/// Bytes that a device moves, or little more, before it lets others have their turn.
pub const WORK_LIMIT: u64 = 256 * 1024;

/// Why a device stops until the guest resets it: its driver breaks the rules, or the host fails.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A ring makes no sense.
    #[error("ring: {0}")]
    Ring(#[from] virtio_queue::Error),
    /// The addresses or the size of a ring make no sense.
    #[error("a ring does not lie in memory")]
    RingPlacement,
    /// A chain loops, is longer than its queue, or leaves the table of descriptors.
    #[error("malformed chain of descriptors")]
    Chain,
    /// A buffer is not in memory.
    #[error("buffer: {0}")]
    Memory(#[from] GuestMemoryError),
    /// A buffer that the device writes where it only reads, or the other way round.
    #[error("buffer of the wrong direction")]
    Direction,
    /// More bytes than the device takes at once.
    #[error("chain of {0} bytes")]
    Length(u64),
    /// The host has failed.
    #[error("host: {0}")]
    Host(#[from] std::io::Error),
}

/// How far a device has come with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Everything that was available has been used.
    All,
    /// What is left waits for the host ([`VirtioDevice::host_event`]), not for the guest.
    Waiting,
    /// Something may be left: it is somebody else's turn, then call again.
    Partly,
}

/// Something on the host for which a queue waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// Stays open as long as the device lives. No two queues wait for the same one.
    pub descriptor: RawFd,
    /// What it must be.
    pub state: HostState,
}

/// What a descriptor must be before a queue can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// There is input.
    Readable,
    /// There is room for output.
    Writable,
}

/// What is known of a [`HostEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can be read, or written, once without blocking.
    Once,
    /// It never blocks: a file.
    Always,
}

/// What one kind of device does.
///
/// The register machine calls all of these, one at a time. [`Self::process`] comes only between
/// [`Self::activate`] and [`Self::reset`], with a queue whose rings lie in memory.
pub trait VirtioDevice: Debug + Send {
    /// The device's number (virtio 1.2, section 5).
    fn device_type(&self) -> u32;

    /// Feature bits of this kind of device; those of the transport and the rings are not the device's business.
    fn features(&self) -> u64 {
        0
    }

    /// How many queues there are, and the most descriptors of each: powers of two.
    fn queue_sizes(&self) -> &'static [u16];

    /// Copies configuration from `offset` on into `data`, which is all zeros before.
    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let _: (u64, &mut [u8]) = (offset, data);
    }

    /// The guest writes to the configuration.
    fn write_config(&mut self, offset: u64, data: &[u8]) {
        let _: (u64, &[u8]) = (offset, data);
    }

    /// The driver is ready and has chosen these features.
    fn activate(&mut self, features: u64) {
        let _: u64 = features;
    }

    /// The driver starts anew: forget the chains that were taken.
    fn reset(&mut self) {}

    /// Serves a queue, up to about [`WORK_LIMIT`].
    ///
    /// # Errors
    ///
    /// The driver breaks the rules: the device will be dead until reset.
    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, DeviceError>;

    /// Whether the configuration has changed since the last call: the guest is told.
    fn take_change(&mut self) -> bool {
        false
    }

    /// Whether this queue carries what the guest wants to be kept: it is served once more when the guest ends.
    fn is_output(&self, index: usize) -> bool {
        let _: usize = index;
        false
    }

    /// What a queue waits for if it is [`Served::Waiting`]; nothing if that will never be.
    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let _: usize = index;
        None
    }

    /// What a queue waited for has happened.
    fn host_ready(&mut self, index: usize, readiness: Readiness) {
        let _: (usize, Readiness) = (index, readiness);
    }
}

/// Copies the part of a configuration space that a guest asks for; beyond its end there are zeros.
pub fn read_window(config: &[u8], offset: u64, data: &mut [u8]) {
    let rest = usize::try_from(offset).ok().and_then(|offset| config.get(offset..)).unwrap_or_default();
    for (to, from) in data.iter_mut().zip(rest) {
        *to = *from;
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::read_window;

    #[test]
    fn a_window_beyond_the_end_shows_zeros() {
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
