//! The platform's console: text output and input without a driver.

use core::fmt;

use crate::ops;

/// Writes bytes as they are.
pub fn write(bytes: &[u8]) {
    ops::console().write(bytes);
}

/// Takes the next byte of the input, if one has arrived.
#[must_use]
pub fn read() -> Option<u8> {
    ops::console().read()
}

/// Whether a byte of input has arrived.
#[must_use]
pub fn has_input() -> bool {
    ops::console().has_input()
}

/// Enables the console's interrupt once: it is raised when input arrives, or at once if some has.
pub fn listen() {
    ops::console().enable_interrupt();
}

/// Writer of formatted text to the console.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleWriter;

impl fmt::Write for ConsoleWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(text.as_bytes());
        Ok(())
    }
}
