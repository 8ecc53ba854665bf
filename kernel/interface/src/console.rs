//! The console: serial ports of a PC, and control bytes of its input, which signal end of file over a serial
//! line.
//!
//! A serial line carries bytes only. As on a terminal (termios, `VEOF` and `VLNEXT`), one byte signals end of
//! file and one quotes the next byte; a carriage return, which the Enter key of a raw terminal sends, reads
//! as a newline (`ICRNL`). A host that relays a file or a pipe to the guest quotes these three bytes, so that
//! all bytes can be sent.

/// I/O ports of a PC's first serial port (16550), which has standard input and output.
pub const SERIAL_PORT: u16 = 0x3f8;

/// I/O ports of a PC's second serial port, which has standard error. Without it, standard error is that of
/// the first.
pub const ERROR_SERIAL_PORT: u16 = 0x2f8;

/// Offset of a serial port's line status register, which reads as [`NO_SERIAL_PORT`] where there is no port.
pub const LINE_STATUS: u16 = 5;

/// Value of the line status register of a port that does not exist, like that of any unassigned I/O port. Bit
/// 7 of a 16550's register is 0 while its FIFO is off.
pub const NO_SERIAL_PORT: u8 = 0xff;

/// End of file (Ctrl-D). Unlike on a terminal it is final: all further reads return end of file.
pub const END_OF_FILE: u8 = 0x04;

/// Quotes the next byte (Ctrl-V).
pub const LITERAL_NEXT: u8 = 0x16;

/// Carriage return: reads as a newline unless quoted.
pub const CARRIAGE_RETURN: u8 = 0x0d;

/// Returns true if `byte` must be quoted with [`LITERAL_NEXT`] to be received unchanged.
#[must_use]
pub const fn needs_quoting(byte: u8) -> bool {
    matches!(byte, END_OF_FILE | LITERAL_NEXT | CARRIAGE_RETURN)
}
