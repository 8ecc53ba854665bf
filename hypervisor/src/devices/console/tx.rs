//! `transmitq`: output of the guest.

use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use super::Output;
use super::config::{MAX_TX_CHAIN, TX_CHUNK};
use crate::devices::virtio::chain::{Buffers, Completion, serve_chains};
use crate::devices::virtio::{DeviceError, QueueProgress};

/// Buffers the available descriptor chains in `output`, in order.
///
/// # Errors
///
/// The driver violates the specification, or a chain is longer than [`MAX_TX_CHAIN`].
pub(super) fn transmit(
    output: &Output,
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
) -> Result<QueueProgress, DeviceError> {
    serve_chains(queue, memory, |chain| {
        let bytes = chain.into_readable()?;
        let work = bytes.length() as u64;
        write(output, bytes, memory)?;
        Ok(Completion { written: 0, work })
    })
}

/// Buffers one descriptor chain as one chunk, or as several if it is longer than [`TX_CHUNK`].
fn write(output: &Output, mut bytes: Buffers, memory: &GuestMemoryMmap) -> Result<(), DeviceError> {
    if bytes.length() > MAX_TX_CHAIN {
        return Err(DeviceError::Length(bytes.length() as u64));
    }
    while !bytes.is_empty() {
        let mut chunk = vec![0; bytes.length().min(TX_CHUNK)];
        let length = bytes.read(memory, &mut chunk)?;
        chunk.truncate(length);
        output.buffer(chunk);
    }
    Ok(())
}
