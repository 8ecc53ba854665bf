//! Operations on interrupt controllers.

use hermit_virtio::transport::pci::MsiMessage;

/// Control of the interrupt controllers. Lines are those of [`crate::interrupts`].
pub(crate) trait IrqChip: Sync {
    /// Initialises the interrupt controllers, with all device lines masked.
    fn init_irqs(&self);

    /// Unmasks a device line.
    fn enable_line(&self, line: u8) {
        let _ = line;
    }

    /// Acknowledges an interrupt. Returns false if the interrupt was spurious. A device line stays masked
    /// until [`Self::finish`], so a device that keeps the line raised causes no interrupt storm.
    fn acknowledge(&self, line: u8) -> bool;

    /// Called before the handlers of a device line, with interrupts masked.
    fn begin(&self, line: u8) {
        let _ = line;
    }

    /// Called after the handlers of a device line: unmasks it.
    fn finish(&self, line: u8) {
        let _ = line;
    }

    /// Connects a global system interrupt that is not one of the device lines to `line`, one of
    /// [`crate::interrupts::MSI_LINES`], on the first CPU. The interrupt is edge-triggered and active high.
    /// Returns false if no interrupt controller has this interrupt.
    fn connect(&self, interrupt: u32, line: u8) -> bool {
        let _ = (interrupt, line);
        false
    }

    /// The message by which a device raises a line on a CPU, which must be running. If no message can address
    /// that CPU, the message goes to the first one. `None` without message-signaled interrupts.
    fn msi_message(&self, cpu: u32, line: u8) -> Option<MsiMessage>;
}
