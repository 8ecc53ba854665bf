//! `receiveq`: input of the host on its way to the guest.

use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

use super::ConsoleInput;
use crate::devices::virtio::chain::{Chain, has_available};
use crate::devices::virtio::{DeviceError, QueueProgress};

/// Fills one descriptor chain after the other with input. When there is no more input, the remaining chains
/// stay in the available ring.
///
/// # Errors
///
/// The driver violates the specification.
pub(super) fn receive(
    mut input: Option<&mut ConsoleInput>,
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
) -> Result<QueueProgress, DeviceError> {
    for _ in 0..queue.size() {
        if !has_available(queue, memory)? {
            return Ok(QueueProgress::Done);
        }
        let Some(input) = input.as_mut().and_then(|input| input.fetch().then_some(input)) else {
            return Ok(QueueProgress::Blocked);
        };
        let Some(chain) = Chain::next(queue, memory)? else { return Ok(QueueProgress::Done) };
        let head = chain.head;
        let written = chain.into_writable()?.write(memory, input.pending())?;
        input.consume(written);
        queue.add_used(memory, head, u32::try_from(written).unwrap_or(u32::MAX))?;
    }
    Ok(QueueProgress::Yielded)
}
