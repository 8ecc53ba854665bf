//! Text that the guest writes to an I/O port instead of a console's `transmitq`.

use std::sync::Arc;

use super::Output;
use crate::devices::virtio::MmioTransport;

/// Host side of a text port ([`hermit_interface::machine::TEXT_PORT`]), which shares its output with a
/// console.
#[derive(Clone, Debug)]
pub struct TextPort {
    consoles: Vec<Arc<MmioTransport>>,
    output: Output,
}

impl TextPort {
    /// Text port beside `consoles`, which writes to `output`.
    #[must_use]
    pub fn new(consoles: Vec<Arc<MmioTransport>>, output: Output) -> Self {
        Self { consoles, output }
    }

    /// Writes text after everything that the guest has made available in the consoles' `transmitq` before.
    pub fn write(&self, text: &[u8]) {
        self.consoles.iter().for_each(|console| console.drain());
        self.output.write(text);
    }

    /// Writes text if the host takes it without waiting. Returns true if it was written. Output that waits in
    /// a `transmitq` comes after it.
    pub fn try_write(&self, text: &[u8]) -> bool {
        self.output.try_write(text)
    }
}

/// Text ports of a VM.
#[derive(Clone, Debug)]
pub struct TextPorts {
    /// Port of standard output.
    pub output: TextPort,
    /// Port of standard error ([`hermit_interface::machine::ERROR_TEXT_PORT`]). All output that the guest has
    /// printed before a report is written before it, also that of standard output.
    pub error: TextPort,
}
