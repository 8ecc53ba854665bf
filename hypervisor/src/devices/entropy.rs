//! The entropy device (virtio 1.2, section 5.4): random bytes from the host.

use std::fmt::Debug;
use std::io::{self, Read};

use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use super::virtio::chain::{Answer, Buffers, serve_chains};
use super::virtio::{DeviceError, Served, VirtioDevice};

/// Most descriptors of the queue.
const QUEUE_SIZES: [u16; 1] = [64];

/// Random bytes are made in pieces of this many.
const PIECE: usize = 4096;

/// Most random bytes for one chain. A longer one is filled in part, as the standard allows.
const MAX_REQUEST: usize = 64 * 1024;

/// The random numbers of the host's kernel (getrandom(2)).
#[derive(Clone, Copy, Debug, Default)]
pub struct HostRandom;

impl Read for HostRandom {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        getrandom::fill(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }
}

/// An entropy device.
#[derive(Debug, Default)]
pub struct Entropy<S = HostRandom> {
    source: S,
}

impl<S: Read> Entropy<S> {
    /// A device that gets its random bytes from `source`.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self { source }
    }

    /// Fills the front of `room`. Returns how many bytes it has filled.
    fn fill(&mut self, mut room: Buffers, memory: &GuestMemoryMmap) -> Result<u32, DeviceError> {
        let mut room = room.take(MAX_REQUEST);
        let mut written = 0;
        while !room.is_empty() {
            let mut piece = [0; PIECE];
            let piece = piece.get_mut(..room.length().min(PIECE)).unwrap_or_default();
            self.source.read_exact(piece)?;
            written += room.write(memory, piece)?;
        }
        Ok(u32::try_from(written).unwrap_or(u32::MAX))
    }
}

impl<S: Read + Debug + Send> VirtioDevice for Entropy<S> {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_RNG
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn process(
        &mut self,
        _index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, DeviceError> {
        serve_chains(queue, memory, |chain| {
            let written = self.fill(chain.into_writable()?, memory)?;
            Ok(Answer { written, work: written.into() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Entropy, HostRandom, MAX_REQUEST};
    use crate::devices::virtio::testing::{BUFFERS, Driver, assert_refuses_hostile_chains};
    use crate::devices::virtio::{DeviceError, Served, VirtioDevice};
    use std::io;
    use virtio_queue::Queue;

    /// Every byte is one more than the one before.
    #[derive(Debug, Default)]
    struct Counting(u8);

    impl io::Read for Counting {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            for byte in bytes.iter_mut() {
                *byte = self.0;
                self.0 = self.0.wrapping_add(1);
            }
            Ok(bytes.len())
        }
    }

    fn process(
        device: &mut impl VirtioDevice,
        queue: &mut Queue,
        driver: &Driver,
    ) -> Result<Served, DeviceError> {
        device.process(0, queue, &driver.memory)
    }

    #[test]
    fn buffers_are_filled() {
        let (mut device, mut driver) = (Entropy::new(Counting::default()), Driver::new(16));
        let mut queue = driver.queue();
        let head = driver.send(&[(BUFFERS, 3, true), (BUFFERS + 16, 0, true), (BUFFERS + 32, 2, true)]);
        assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), Served::All);
        assert_eq!(driver.used(), [(head.into(), 5)]);
        assert_eq!(driver.bytes(BUFFERS, 4), [0, 1, 2, 0]);
        assert_eq!(driver.bytes(BUFFERS + 32, 3), [3, 4, 0]);
    }

    #[test]
    fn a_large_request_is_filled_in_part() {
        let (mut device, mut driver) = (Entropy::new(io::repeat(7)), Driver::new(16));
        let mut queue = driver.queue();
        // Over and over the same memory: more than there is.
        driver.send(&[(BUFFERS, 0x2_0000, true); 16]);
        assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), Served::All);
        assert_eq!(driver.used(), [(0, u32::try_from(MAX_REQUEST).unwrap())]);
        assert_eq!(driver.bytes(BUFFERS + 0xffff, 2), [7, 0]);
    }

    #[test]
    fn many_requests_take_turns() {
        let (mut device, mut driver) = (Entropy::new(io::repeat(7)), Driver::new(16));
        let mut queue = driver.queue();
        for _ in 0..8 {
            driver.send(&[(BUFFERS, 0x1_0000, true)]);
        }
        assert_eq!(process(&mut device, &mut queue, &driver).unwrap(), Served::Partly);
        assert_eq!(driver.used().len(), 4);
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        assert_refuses_hostile_chains(0, || Entropy::new(Counting::default()));
        let (mut device, mut driver) = (Entropy::new(Counting::default()), Driver::new(16));
        let mut queue = driver.queue();
        driver.send(&[(BUFFERS, 1, false), (BUFFERS, 1, true)]);
        assert!(matches!(process(&mut device, &mut queue, &driver), Err(DeviceError::Direction)));
    }

    #[test]
    fn without_random_bytes_there_is_no_answer() {
        let (mut device, mut driver) = (Entropy::new(io::empty()), Driver::new(16));
        let mut queue = driver.queue();
        driver.send(&[(BUFFERS, 1, true)]);
        assert!(matches!(process(&mut device, &mut queue, &driver), Err(DeviceError::Host(_))));
        assert!(driver.used().is_empty());
    }

    #[test]
    fn the_host_gives_random_bytes() {
        let [first, second] = [(); 2].map(|()| {
            let mut bytes = [0; 32];
            io::Read::read_exact(&mut HostRandom, &mut bytes).unwrap();
            bytes
        });
        assert_ne!(first, second);
    }
}
