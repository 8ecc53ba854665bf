//! Times and durations.

use super::assert_layout;
use super::scalar::{suseconds_t, time_t};

/// A time or a duration in seconds and nanoseconds.
///
/// The nanoseconds are 32 bits wide, unlike those of most C libraries; four bytes of padding follow them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct timespec {
    /// Whole seconds.
    pub tv_sec: time_t,
    /// Nanoseconds in addition to the seconds, 0 to 999 999 999.
    pub tv_nsec: i32,
}
assert_layout!(timespec, size 16, tv_sec @ 0, tv_nsec @ 8);

/// A duration in seconds and microseconds, the value of socket timeouts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct timeval {
    /// Whole seconds.
    pub tv_sec: time_t,
    /// Microseconds in addition to the seconds, 0 to 999 999.
    pub tv_usec: suseconds_t,
}
assert_layout!(timeval, size 16, tv_sec @ 0, tv_usec @ 8);
