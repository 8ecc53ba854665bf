//! The network device's RX interrupt. After the device has raised it, it is disabled. Then a thread receives
//! all frames, and enables the interrupt again before it sleeps or returns to its program.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::devices;

/// True if the RX interrupt is enabled.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Records that the interrupt was raised, and so is disabled now.
pub(super) fn note_raised() {
    IS_ENABLED.store(false, Release);
}

/// Enables the interrupt. Returns true if frames have already been received. The device may raise no
/// interrupt for these frames.
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
