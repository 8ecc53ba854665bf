//! Stopping all other CPUs, to report a fault or to end the machine.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch::local;
use crate::ops;

/// Value of [`STOPPING_CPU`] while all CPUs run.
const NONE: u32 = u32::MAX;

/// The CPU that has stopped the others.
static STOPPING_CPU: AtomicU32 = AtomicU32::new(NONE);

/// Stops all other CPUs until the machine ends, so that this CPU can report a fault. Returns false if this
/// CPU has already stopped the others. If another CPU has stopped the others, this one stops here.
pub fn stop_others() -> bool {
    let here = local::number();
    match STOPPING_CPU.compare_exchange(NONE, here, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            ops::smp().stop_others();
            true
        }
        Err(by) if by == here => false,
        Err(_) => ops::cpu().stop(),
    }
}

/// Returns true if this CPU has stopped the others, to report a fault or to end the machine.
pub(crate) fn is_stopping_others() -> bool {
    STOPPING_CPU.load(Ordering::Acquire) == local::number()
}

/// Returns true if another CPU has stopped this one.
pub(crate) fn is_stopped() -> bool {
    let by = STOPPING_CPU.load(Ordering::Acquire);
    by != NONE && by != local::number()
}
