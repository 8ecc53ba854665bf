//! The network device's interrupt for received frames. It comes once: then a thread takes all that is there, and enables
//! it again before it sleeps or returns to its program.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::devices;

/// Whether the device interrupts when it receives something.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Records that the interrupt has come.
pub(super) fn note_raised() {
    IS_ENABLED.store(false, Release);
}

/// Enables the interrupt. Returns whether something has been received already, so that none may come.
pub(super) fn enable() -> bool {
    let Some(device) = devices::network() else { return false };
    if IS_ENABLED.swap(true, Acquire) {
        return false;
    }
    let has_more = device.receive_interrupts(true);
    if has_more {
        IS_ENABLED.store(false, Release);
    }
    has_more
}

/// Disables the interrupt.
pub(super) fn disable() {
    if let Some(device) = devices::network() {
        device.receive_interrupts(false);
        IS_ENABLED.store(false, Release);
    }
}
