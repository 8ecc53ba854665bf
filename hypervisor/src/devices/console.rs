//! The console device (virtio 1.2 §5.3): one port, with an input queue and an output queue.

mod config;
mod escape;
mod input;
mod output;
mod rx;
mod text_port;
mod tx;

use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

pub(crate) use self::config::TRANSMITQ;
use self::config::{QUEUE_SIZES, RECEIVEQ};
pub use self::input::ConsoleInput;
pub use self::output::Output;
pub use self::text_port::{TextPort, TextPorts};
use super::virtio::{
    DeviceError, EventValidity, HostEvent, Interest, QueueProgress, QueueSink, VirtioDevice,
};

/// A virtio console. One console serves standard input and output, another one standard error.
#[derive(Debug)]
pub struct ConsoleDevice {
    input: Option<ConsoleInput>,
    output: Output,
}

impl ConsoleDevice {
    /// Creates a console that writes to `output`, and reads from `input` if there is one.
    #[must_use]
    pub fn new(output: Output, input: Option<ConsoleInput>) -> Self {
        Self { input, output }
    }
}

impl VirtioDevice for ConsoleDevice {
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
    ) -> Result<QueueProgress, DeviceError> {
        match index {
            RECEIVEQ => rx::receive(self.input.as_mut(), queue, memory),
            TRANSMITQ => tx::transmit(&self.output, queue, memory),
            _ => Ok(QueueProgress::Done),
        }
    }

    fn is_output(&self, index: usize) -> bool {
        index == TRANSMITQ
    }

    fn sink(&self, index: usize) -> Option<Box<dyn QueueSink>> {
        (index == TRANSMITQ).then(|| -> Box<dyn QueueSink> { Box::new(self.output.clone()) })
    }

    fn host_event(&self, index: usize) -> Option<HostEvent> {
        let input = self.input.as_ref().filter(|_| index == RECEIVEQ)?;
        Some(HostEvent { fd: input.fd()?, interest: Interest::Readable })
    }

    fn host_ready(&mut self, index: usize, readiness: EventValidity) {
        if let Some(input) = self.input.as_mut().filter(|_| index == RECEIVEQ) {
            input.set_ready(readiness);
        }
    }
}

#[cfg(test)]
mod tests;
