//! The platform's console: text output and input without a driver.

use core::fmt;

use crate::ops;
pub use crate::ops::Stream;

/// Writes bytes as they are. Waits until the console has taken all of them.
pub fn write(stream: Stream, bytes: &[u8]) {
    ops::console().write(stream, bytes);
}

/// Writes as many bytes as the console takes without waiting for the host. Returns the number of bytes
/// written.
#[must_use]
pub fn try_write(stream: Stream, bytes: &[u8]) -> usize {
    ops::console().try_write(stream, bytes)
}

/// Number of short writes that take less time on this console than a device's initialisation.
#[must_use]
pub fn driverless_writes() -> u32 {
    ops::console().driverless_writes()
}

/// Takes and returns the next byte of the input, if one has arrived.
#[must_use]
pub fn read() -> Option<u8> {
    ops::console().read()
}

/// Returns true if a byte of input has arrived.
#[must_use]
pub fn has_input() -> bool {
    ops::console().has_input()
}

/// Enables the console's interrupt for one event: it is raised when input arrives, or at once if input has
/// arrived.
pub fn listen() {
    ops::console().enable_interrupt();
}

/// Writer of formatted text to the console's standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleWriter;

impl fmt::Write for ConsoleWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(Stream::Error, text.as_bytes());
        Ok(())
    }
}
