//! Text that the guest writes to an I/O port instead of the console's `transmitq`.

use std::sync::Arc;

use super::Output;
use crate::devices::virtio::MmioTransport;

/// Host side of the text port ([`hermit_interface::machine::TEXT_PORT`]), which shares its output with the console.
#[derive(Clone, Debug)]
pub struct TextPort {
    console: Arc<MmioTransport>,
    output: Output,
}

impl TextPort {
    /// Text port beside `console`, which writes to `output`.
    #[must_use]
    pub fn new(console: Arc<MmioTransport>, output: Output) -> Self {
        Self { console, output }
    }

    /// Writes text after everything that the guest has made available in the console's `transmitq` before.
    pub fn write(&self, text: &[u8]) {
        self.console.drain();
        self.output.write(text);
    }
}
