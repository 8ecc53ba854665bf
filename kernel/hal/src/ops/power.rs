//! Shutdown of the machine.

/// Shutdown of the machine.
pub(crate) trait Power: Sync {
    /// Shuts the machine down; its hypervisor exits with this status.
    fn exit(&self, status: u8) -> !;
}
