//! The end of the machine.

use crate::ops;

/// Ends the machine with an exit status for the host.
pub fn exit(status: u8) -> ! {
    ops::power().exit(status)
}
