//! How input reaches the guest over a line that has no notion of its end.
//!
//! A serial line carries bytes only. As on a terminal (termios, `VEOF` and `VLNEXT`), one byte stands for the
//! end of the input and one takes the meaning from the byte after it; a carriage return, which is what
//! the Enter key of a raw terminal sends, reads as a newline (`ICRNL`). Whoever relays a file or a pipe to the
//! guest quotes these three, so every byte passes.

/// The end of the input (Ctrl-D). Unlike a terminal's it is final: whoever reads on is at the end again.
pub const END_OF_FILE: u8 = 0x04;

/// The next byte stands for itself (Ctrl-V).
pub const LITERAL_NEXT: u8 = 0x16;

/// Reads as a newline unless quoted.
pub const CARRIAGE_RETURN: u8 = 0x0d;

/// Whether `byte` must be preceded by [`LITERAL_NEXT`] to arrive as it is.
#[must_use]
pub const fn needs_quoting(byte: u8) -> bool {
    matches!(byte, END_OF_FILE | LITERAL_NEXT | CARRIAGE_RETURN)
}
