//! The console: the serial ports of a PC, and the control bytes of the console's input.
//!
//! A serial line carries only bytes, so it cannot signal the end of the input in another way. As on a
//! terminal (termios, `VEOF` and `VLNEXT`), one control byte signals end of file, and another one quotes the
//! next byte. A carriage return, which the Enter key of a raw terminal sends, reads as a newline (`ICRNL`). A
//! host that relays a file or a pipe to the guest quotes these three bytes. So it can send every byte.

/// I/O ports of a PC's first serial port (16550), which has standard input and output.
pub const SERIAL_PORT: u16 = 0x3f8;

/// I/O ports of a PC's second serial port, which has standard error. Without this port, standard error goes
/// to the first port.
pub const ERROR_SERIAL_PORT: u16 = 0x2f8;

/// Offset of a serial port's line status register, which reads as [`NO_SERIAL_PORT`] where there is no port.
pub const LINE_STATUS: u16 = 5;

/// Value of the line status register if the serial port does not exist, as for any unassigned I/O port. An
/// existing 16550 never has this value while its FIFO is off, since bit 7 is then 0.
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
