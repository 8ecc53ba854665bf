//! The network device's RX interrupt. It is raised once: then a thread receives all frames, and enables the
//! interrupt again before it sleeps or returns to its program.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::devices;

/// True if the RX interrupt is enabled.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Records that the interrupt was raised.
pub(super) fn note_raised() {
    IS_ENABLED.store(false, Release);
}

/// Enables the interrupt. Returns whether frames have been received already, for which none may be raised.
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
