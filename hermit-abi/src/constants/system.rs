//! Clocks, futexes, memory protection and limits.

use crate::types::scalar::clockid_t;

/// Wall clock: time since the Unix epoch. It may jump.
pub const CLOCK_REALTIME: clockid_t = 1;
/// Monotonic clock, with an unspecified start.
pub const CLOCK_MONOTONIC: clockid_t = 4;

/// For [`futex_wait`](crate::futex_wait): the timeout is a duration, not a time of the monotonic clock.
pub const FUTEX_RELATIVE_TIMEOUT: u32 = 1;

/// No access.
pub const PROT_NONE: u32 = 0;
/// Read access.
pub const PROT_READ: u32 = 1;
/// Write access.
pub const PROT_WRITE: u32 = 1 << 1;
/// Execute access.
pub const PROT_EXEC: u32 = 1 << 2;

/// Value of [`string_moves`](crate::string_moves): no instruction is known to be faster.
pub const STRING_MOVES_NONE: u32 = 0;
/// Bit of [`string_moves`](crate::string_moves): `rep movsq` and `rep stosq` are faster for blocks of a few
/// hundred bytes or more; the processor is emulated.
pub const STRING_MOVES_WORDS: u32 = 1;
/// Bit of [`string_moves`](crate::string_moves): `rep movsb` and `rep stosb` are faster for blocks of a few
/// thousand bytes or more (ERMS, SDM volume 1, section 7.3.9.3).
pub const STRING_MOVES_BYTES: u32 = 1 << 1;
/// Bit of [`string_moves`](crate::string_moves): the processor has AVX2 and FMA, and the kernel has enabled
/// AVX's registers.
pub const STRING_MOVES_VECTORS: u32 = 1 << 2;

/// Maximum result of the C library's `rand`.
pub const RAND_MAX: i32 = i32::MAX;
