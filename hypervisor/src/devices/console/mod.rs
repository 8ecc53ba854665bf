//! The console (virtio 1.2, section 5.3): a queue of input and a queue of output.

mod input;
mod output;
use std::sync::Arc;

use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

pub use self::input::Input;
pub use self::output::Output;
use super::virtio::chain::{Answer, Buffers, Chain, has_available, serve_chains};
use super::virtio::{DeviceError, HostEvent, HostState, Readiness, Served, Slot, VirtioDevice};

/// Queue of the buffers into which input goes.
const RECEIVE: usize = 0;

/// Queue of the buffers that hold output.
const TRANSMIT: usize = 1;

/// Most descriptors of each queue.
const QUEUE_SIZES: [u16; 2] = [256, 256];

/// Output is copied out of guest memory in pieces of this many bytes.
const PIECE: usize = 64 * 1024;

/// Most bytes of one chain of output.
const MAX_OUTPUT: usize = 1024 * 1024;

/// A console.
#[derive(Debug)]
pub struct Console {
    input: Option<Input>,
    output: Output,
}

impl Console {
    /// A console that writes to `output`, and reads from `input` if there is one.
    #[must_use]
    pub fn new(output: Output, input: Option<Input>) -> Self {
        Self { input, output }
    }

    fn transmit(&mut self, queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<Served, DeviceError> {
        serve_chains(queue, memory, |chain| {
            let bytes = chain.into_readable()?;
            let work = bytes.length() as u64;
            write(&self.output, bytes, memory)?;
            Ok(Answer { written: 0, work })
        })
    }

    /// Fills one buffer after the other, but takes none for which there is no input.
    fn receive(&mut self, queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<Served, DeviceError> {
        for _ in 0..queue.size() {
            if !has_available(queue, memory)? {
                return Ok(Served::All);
            }
            let Some(input) = self.input.as_mut().and_then(Input::fetched) else {
                return Ok(Served::Waiting);
            };
            let Some(chain) = Chain::next(queue, memory)? else { return Ok(Served::All) };
            let head = chain.head;
            let written = chain.into_writable()?.write(memory, input.pending())?;
            input.consume(written);
            queue.add_used(memory, head, u32::try_from(written).unwrap_or(u32::MAX))?;
        }
        Ok(Served::Partly)
    }
}

impl VirtioDevice for Console {
    fn device_type(&self) -> u32 {
        VIRTIO_ID_CONSOLE
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, DeviceError> {
        match index {
            RECEIVE => self.receive(queue, memory),
            TRANSMIT => self.transmit(queue, memory),
            _ => Ok(Served::All),
        }
    }

    fn is_output(&self, index: usize) -> bool {
        index == TRANSMIT
    }

    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let input = self.input.as_ref().filter(|_| index == RECEIVE)?;
        Some(HostEvent { descriptor: input.descriptor()?, state: HostState::Readable })
    }

    fn host_ready(&mut self, index: usize, readiness: Readiness) {
        if let Some(input) = self.input.as_mut().filter(|_| index == RECEIVE) {
            input.set_ready(readiness);
        }
    }
}

/// Writes what a chain holds: in one call, unless it is long.
fn write(output: &Output, mut bytes: Buffers, memory: &GuestMemoryMmap) -> Result<(), DeviceError> {
    if bytes.length() > MAX_OUTPUT {
        return Err(DeviceError::Length(bytes.length() as u64));
    }
    let mut piece = vec![0; bytes.length().min(PIECE)];
    while !bytes.is_empty() {
        let length = bytes.read(memory, &mut piece)?;
        output.write(piece.get(..length).unwrap_or_default());
    }
    Ok(())
}

/// Text that does not come through the queues: from the machine's text port.
#[derive(Clone, Debug)]
pub struct Text {
    console: Arc<Slot>,
    output: Output,
}

impl Text {
    /// Text for the console in `slot`, which writes to `output`.
    #[must_use]
    pub fn new(slot: Arc<Slot>, output: Output) -> Self {
        Self { console: slot, output }
    }

    /// Writes text, after everything that the guest has sent through the queue before.
    pub fn write(&self, text: &[u8]) {
        self.console.drain();
        self.output.write(text);
    }
}

#[cfg(test)]
mod tests;
