//! Exit of a guest: ports and exit statuses.
//!
//! Under QEMU, a guest uses two I/O ports to exit, since `isa-debug-exit` alone carries only seven bits.
//! First it writes the exit status as a byte to [`STATUS_PORT`], an `isa-debugcon` whose character device the
//! build tool reads. Then a write to [`QUIT_PORT`], an `isa-debug-exit`, ends QEMU.

/// I/O port that takes the exit status as one byte.
pub const STATUS_PORT: u16 = 0xf8;

/// I/O port that ends the virtual machine on any write.
pub const QUIT_PORT: u16 = 0xf4;

/// I/O port to which the kernel writes a byte when the program begins to handle requests to end. After that,
/// the host does not end the machine at once. Instead, it presses the power button
/// ([`crate::machine::POWER_BUTTON_LINE`], or ACPI's) and waits. Under QEMU, the port is an `isa-debugcon`,
/// as [`STATUS_PORT`].
pub const SHUTDOWN_HANDLED_PORT: u16 = 0xf9;

/// Status if the guest could not be started: the image or the machine configuration is invalid. The same
/// status as `docker run`.
pub const NOT_STARTED: u8 = 125;

/// Status after an abort, such as a panic, a stack overflow or a failed allocation: the same as that of a
/// process that SIGABRT ends.
pub const ABORTED: u8 = 128 + 6;

/// Status after an illegal instruction (SIGILL).
pub const ILLEGAL_INSTRUCTION: u8 = 128 + 4;

/// Status after a debug trap (SIGTRAP).
pub const TRAPPED: u8 = 128 + 5;

/// Status after an alignment or memory-type fault (SIGBUS).
pub const BUS_ERROR: u8 = 128 + 7;

/// Status after an arithmetic exception (SIGFPE).
pub const ARITHMETIC_TRAP: u8 = 128 + 8;

/// Status of a guest that was requested to end and was killed after the grace period (SIGKILL). `docker stop`
/// has the same status.
pub const KILLED: u8 = 128 + 9;

/// Status after an invalid memory access (SIGSEGV).
pub const INVALID_ACCESS: u8 = 128 + 11;
