//! Text out and in.

use core::fmt;

use crate::platform;

/// Writes bytes as they are.
pub fn write(bytes: &[u8]) {
    platform::current().write(bytes);
}

/// The next byte of the input, if one has arrived.
#[must_use]
pub fn read() -> Option<u8> {
    platform::current().read()
}

/// Whether a byte has arrived.
#[must_use]
pub fn has_input() -> bool {
    platform::current().has_input()
}

/// Asks for an interrupt once input has arrived, or at once if some has.
pub fn listen() {
    platform::current().listen();
}

/// Formats text for the console.
#[derive(Clone, Copy, Debug, Default)]
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(text.as_bytes());
        Ok(())
    }
}
