//! The power button, by which the host requests the program to end.

use crate::ops;

/// Interrupt line of the button; `None` if the machine has none.
#[must_use]
pub fn line() -> Option<u8> {
    ops::power().power_button_line()
}

/// Enables the interrupt of the button. The caller has registered a handler for [`line()`]. Until this call,
/// the host ends the machine instead of pressing the button.
pub fn enable() {
    ops::power().enable_power_button();
}

/// Returns true if the button was pressed since the last call. Called by the handler of its line, which other
/// devices may share.
#[must_use]
pub fn take_press() -> bool {
    ops::power().take_power_button()
}
