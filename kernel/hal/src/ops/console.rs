//! Console operations.

/// Output stream of a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error. A platform with a single stream writes it to that stream.
    Error,
}

/// Text output and input without a driver: a serial port, or a port of the hypervisor.
pub(crate) trait PlatformConsole: Sync {
    /// Initialises the console. There is no heap yet.
    fn init(&self) {}

    /// Writes bytes. Returns when the console has taken all of them.
    fn write(&self, stream: Stream, bytes: &[u8]);

    /// Writes as many bytes as the console takes without waiting for the host. Returns the number of bytes
    /// written.
    fn try_write(&self, stream: Stream, bytes: &[u8]) -> usize {
        self.write(stream, bytes);
        bytes.len()
    }

    /// Number of short writes that take less time on this console than a device's initialisation.
    fn driverless_writes(&self) -> u32 {
        0
    }

    /// Takes and returns the next byte of the input, if one has arrived.
    fn read(&self) -> Option<u8> {
        None
    }

    /// Returns true if a byte of input has arrived.
    fn has_input(&self) -> bool {
        false
    }

    /// Enables the console's interrupt for one event: it is raised when input arrives, or at once if input
    /// has arrived.
    fn enable_interrupt(&self) {}
}
