//! Clocks, futexes, memory protection and limits.

use crate::types::scalar::clockid_t;

/// The clock that tells the time since the Unix epoch; it may be set, so it may jump.
pub const CLOCK_REALTIME: clockid_t = 1;
/// The clock that only goes forward, from an unspecified start.
pub const CLOCK_MONOTONIC: clockid_t = 4;

/// For [`futex_wait`](crate::futex_wait): the timeout counts from the call, and is not a time of the monotonic clock.
pub const FUTEX_RELATIVE_TIMEOUT: u32 = 1;

/// Memory that may not be accessed at all.
pub const PROT_NONE: u32 = 0;
/// Memory that may be read.
pub const PROT_READ: u32 = 1;
/// Memory that may be written.
pub const PROT_WRITE: u32 = 1 << 1;
/// Memory that may be executed.
pub const PROT_EXEC: u32 = 1 << 2;

/// The largest result of the C library's `rand`.
pub const RAND_MAX: i32 = i32::MAX;
