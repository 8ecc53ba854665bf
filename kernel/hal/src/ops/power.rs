//! Shutdown of the machine, and the power button.

/// Shutdown of the machine, and the power button, by which the host requests it.
pub(crate) trait Power: Sync {
    /// Shuts the machine down; its hypervisor exits with this status.
    fn exit(&self, status: u8) -> !;

    /// Whether the host, after [`Self::exit`], takes the output that the virtio console devices still have in
    /// their queues.
    fn drains_consoles(&self) -> bool {
        false
    }

    /// Interrupt line of the power button; `None` if the machine has none.
    fn power_button_line(&self) -> Option<u8> {
        None
    }

    /// Enables the power button's interrupt, and tells the host that the program handles it. The button has a
    /// line, for which a handler is registered.
    fn enable_power_button(&self) {}

    /// Whether the power button was pressed since the last call. Called after an interrupt of its line, which
    /// devices may share.
    fn take_power_button(&self) -> bool {
        false
    }
}
