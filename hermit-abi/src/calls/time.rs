//! Clocks and sleeping.

use crate::types::scalar::clockid_t;
use crate::types::time::timespec;

unsafe extern "C" {
    /// Stores the time of a clock in `tp`. Fails with `-EINVAL` for a clock there is not.
    ///
    /// # Safety
    ///
    /// `tp` must be valid for writing.
    #[link_name = "sys_clock_gettime"]
    pub fn clock_gettime(clockid: clockid_t, tp: *mut timespec) -> i32;

    /// Sleeps for at least `usecs` microseconds. `u64::MAX` is as good as for ever.
    #[link_name = "sys_usleep"]
    pub fn usleep(usecs: u64);

    /// Sleeps for at least the span `req`. Fails with `-EINVAL` if it is negative or has too many nanoseconds.
    ///
    /// # Safety
    ///
    /// `req` must be valid for reading.
    #[link_name = "sys_nanosleep"]
    pub fn nanosleep(req: *const timespec) -> i32;
}
