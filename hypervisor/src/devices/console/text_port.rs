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
    /// Creates a text port that writes to `output`. Its text comes after the output of `consoles`.
    #[must_use]
    pub fn new(consoles: Vec<Arc<MmioTransport>>, output: Output) -> Self {
        Self { consoles, output }
    }

    /// Writes text, after all output that the guest has already made available in the consoles' `transmitq`.
    pub fn write(&self, text: &[u8]) {
        self.consoles.iter().for_each(|console| console.drain());
        self.output.write(text);
    }

    /// Writes text if the host's stream takes it without blocking. Returns true if it was written. The text
    /// may come before output that is still in a `transmitq`.
    pub fn try_write(&self, text: &[u8]) -> bool {
        self.output.try_write(text)
    }
}

/// Text ports of a VM.
#[derive(Clone, Debug)]
pub struct TextPorts {
    /// Port of standard output.
    pub output: TextPort,
    /// Port of standard error ([`hermit_interface::machine::ERROR_TEXT_PORT`]). Before a text, all earlier
    /// output of the guest is written, including the output to standard output.
    pub error: TextPort,
}
