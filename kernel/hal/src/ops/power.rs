//! Shutdown of the machine, and the power button.

/// Shutdown of the machine, and the power button, by which the host requests a shutdown.
pub(crate) trait Power: Sync {
    /// Shuts the machine down; its hypervisor exits with this status.
    fn exit(&self, status: u8) -> !;

    /// Returns true if the host, after [`Self::exit`], still processes the output in the queues of the virtio
    /// console devices.
    fn drains_consoles(&self) -> bool {
        false
    }

    /// Interrupt line of the power button; `None` if the machine has none.
    fn power_button_line(&self) -> Option<u8> {
        None
    }

    /// Enables the power button's interrupt, and announces to the host that the program handles it. The
    /// caller has registered a handler for [`Self::power_button_line`].
    fn enable_power_button(&self) {}

    /// Returns true if the power button was pressed since the last call. Called after an interrupt of its
    /// line, which other devices may share.
    fn take_power_button(&self) -> bool {
        false
    }
}
