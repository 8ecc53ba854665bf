//! The end of the machine.

/// The end of the machine.
pub(crate) trait Power: Sync {
    /// Ends the machine with an exit status.
    fn exit(&self, status: u8) -> !;
}
