//! Device registers behind I/O ports.

use x86_64::instructions::port::Port;

/// A byte-wide register of a device whose accesses cannot harm memory.
#[derive(Debug)]
pub(crate) struct Register(u16);

impl Register {
    /// The register at a port.
    ///
    /// # Safety
    ///
    /// Nothing that is read from or written to the port may affect memory (no DMA, no reset of the machine).
    pub(crate) const unsafe fn new(port: u16) -> Self {
        Self(port)
    }

    /// Reads the register.
    pub(crate) fn read(&self) -> u8 {
        // SAFETY: harmless by the promise made in `new`.
        unsafe { Port::new(self.0).read() }
    }

    /// Writes the register.
    pub(crate) fn write(&self, value: u8) {
        // SAFETY: harmless by the promise made in `new`.
        unsafe { Port::new(self.0).write(value) }
    }
}
