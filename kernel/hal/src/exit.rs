//! The end of the machine.

use crate::ops;

/// Returns true if the host processes the output in the queues of the console devices after the machine has
/// ended.
#[must_use]
pub fn drains_consoles() -> bool {
    ops::power().drains_consoles()
}

/// Ends the machine with an exit status for the host.
pub fn exit(status: u8) -> ! {
    ops::power().exit(status)
}
