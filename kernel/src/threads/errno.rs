//! The error number of a thread's last failed call.

use hermit_interface::Errno;

use super::schedule;

/// The current thread's error number.
pub(crate) fn get() -> i32 {
    schedule::current().errno()
}

/// Sets the current thread's error number, and returns it negated, as calls of the ABI return errors.
#[cold]
pub(crate) fn set(error: Errno) -> i32 {
    schedule::current().set_errno(error);
    -error.number()
}
