//! The entropy device (virtio 1.2 §5.4): random bytes from the host.

mod config;

use std::fmt::Debug;
use std::io::{self, Read};

use virtio_bindings::virtio_ids::VIRTIO_ID_RNG;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use self::config::{CHUNK, MAX_REQUEST, QUEUE_SIZES};
use super::virtio::chain::{Buffers, Completion, serve_chains};
use super::virtio::{DeviceError, QueueProgress, VirtioDevice};
use crate::host::random;

/// Random bytes of the host's kernel (getrandom(2)).
#[derive(Clone, Copy, Debug, Default)]
pub struct HostRandom;

impl Read for HostRandom {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        random::fill(bytes)?;
        Ok(bytes.len())
    }
}

/// A virtio entropy device.
#[derive(Debug, Default)]
pub struct Entropy<S = HostRandom> {
    source: S,
}

impl<S: Read> Entropy<S> {
    /// Creates a device that reads its random bytes from `source`.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self { source }
    }

    /// Fills at most the first [`MAX_REQUEST`] bytes of `buffers`. Returns the number of bytes written.
    fn fill(&mut self, mut buffers: Buffers, memory: &GuestMemoryMmap) -> Result<u32, DeviceError> {
        let mut buffers = buffers.take(MAX_REQUEST);
        let mut written = 0;
        while !buffers.is_empty() {
            let mut chunk = [0; CHUNK];
            let chunk = chunk.get_mut(..buffers.length().min(CHUNK)).unwrap_or_default();
            self.source.read_exact(chunk)?;
            written += buffers.write(memory, chunk)?;
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
    ) -> Result<QueueProgress, DeviceError> {
        serve_chains(queue, memory, |chain| {
            let written = self.fill(chain.into_writable()?, memory)?;
            Ok(Completion { written, work: written.into() })
        })
    }
}

#[cfg(test)]
mod tests;
