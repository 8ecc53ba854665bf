//! Control bytes of console input, which signal end of file over a serial line.
//!
//! A serial line carries bytes only. As on a terminal (termios, `VEOF` and `VLNEXT`), one byte signals end of file
//! and one quotes the next byte; a carriage return, which the Enter key of a raw terminal sends, reads as a newline
//! (`ICRNL`). A host that relays a file or a pipe to the guest quotes these three bytes, so that all bytes can be
//! sent.

/// End of file (Ctrl-D). Unlike on a terminal it is final: all further reads return end of file.
pub const END_OF_FILE: u8 = 0x04;

/// Quotes the next byte (Ctrl-V).
pub const LITERAL_NEXT: u8 = 0x16;

/// Carriage return: reads as a newline unless quoted.
pub const CARRIAGE_RETURN: u8 = 0x0d;

/// Whether `byte` must be quoted with [`LITERAL_NEXT`] to be received unchanged.
#[must_use]
pub const fn needs_quoting(byte: u8) -> bool {
    matches!(byte, END_OF_FILE | LITERAL_NEXT | CARRIAGE_RETURN)
}
