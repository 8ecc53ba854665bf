//! What belongs to a thread. There is one today.

use core::sync::atomic::{AtomicI32, Ordering};

use hermit_interface::Errno;

/// The number of the only thread.
pub(crate) const MAIN_ID: i32 = 1;

static ERRNO: AtomicI32 = AtomicI32::new(0);

/// The name of the thread that runs, for reports.
pub(crate) const fn name() -> &'static str {
    "main"
}

/// The error of the thread's last failed call.
pub(crate) fn errno() -> i32 {
    ERRNO.load(Ordering::Relaxed)
}

/// Notes why a call failed, and returns it the way calls return errors.
#[cold]
pub(crate) fn failed(error: Errno) -> i32 {
    ERRNO.store(error.number(), Ordering::Relaxed);
    -error.number()
}
