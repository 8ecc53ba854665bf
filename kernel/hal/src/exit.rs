//! The end of the machine.

use hermit_interface::exit::NOT_STARTED;

use crate::platform;
use crate::platform::Platform;

/// Ends the machine with a status that reaches whoever started it.
pub fn exit(status: u8) -> ! {
    platform::current().exit(status)
}

/// Ends a machine of which nothing is known: no valid boot information was found.
pub(crate) fn without_platform() -> ! {
    platform::pc::Pc.exit(NOT_STARTED)
}
