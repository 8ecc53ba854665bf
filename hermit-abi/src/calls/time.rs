//! Clocks and sleeping.

use crate::types::scalar::clockid_t;
use crate::types::time::timespec;

unsafe extern "C" {
    /// Stores the time of a clock in `tp`. Fails with `-EINVAL` for an unknown clock.
    ///
    /// # Safety
    ///
    /// `tp` must be valid for writing.
    #[link_name = "sys_clock_gettime"]
    pub fn clock_gettime(clockid: clockid_t, tp: *mut timespec) -> i32;

    /// Returns the time of `CLOCK_MONOTONIC` in registers: for `Instant::now`.
    #[link_name = "sys_monotonic_time"]
    pub fn monotonic_time() -> timespec;

    /// Sleeps for at least `usecs` microseconds.
    #[link_name = "sys_usleep"]
    pub fn usleep(usecs: u64);

    /// Sleeps for at least the duration `req`. Fails with `-EINVAL` if `req` is negative or `tv_nsec` is a
    /// second or more.
    ///
    /// # Safety
    ///
    /// `req` must be valid for reading.
    #[link_name = "sys_nanosleep"]
    pub fn nanosleep(req: *const timespec) -> i32;
}
