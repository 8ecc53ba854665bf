//! How a guest ends, and with which status.
//!
//! Under QEMU the status leaves through two I/O ports, since `isa-debug-exit` alone cannot carry eight bits: a
//! byte written to [`STATUS_PORT`] (an `isa-debugcon` whose character device the build tool reads) is the
//! status, a write to [`QUIT_PORT`] (an `isa-debug-exit`) ends QEMU.

/// I/O port that takes the exit status as one byte.
pub const STATUS_PORT: u16 = 0xf8;

/// I/O port that ends the virtual machine, whatever is written.
pub const QUIT_PORT: u16 = 0xf4;

/// Status of a guest that was never started: the image or the machine does not serve. The same as Docker's.
pub const NOT_STARTED: u8 = 125;

/// Status of a guest that gave up by itself: abort, panic, stack overflow, failed allocation. A Linux shell
/// shows the same for a process that ends by SIGABRT.
pub const ABORTED: u8 = 128 + 6;

/// Status after an illegal instruction (SIGILL).
pub const ILLEGAL_INSTRUCTION: u8 = 128 + 4;

/// Status after a debug trap (SIGTRAP).
pub const TRAPPED: u8 = 128 + 5;

/// Status after an access that the hardware refused for its alignment or memory type (SIGBUS).
pub const BUS_ERROR: u8 = 128 + 7;

/// Status after an arithmetic trap (SIGFPE).
pub const ARITHMETIC_TRAP: u8 = 128 + 8;

/// Status after an invalid memory access (SIGSEGV).
pub const INVALID_ACCESS: u8 = 128 + 11;
