//! There is no terminal.

use std::io;

use crate::terminal::WindowSize;

pub(crate) fn is_raw_mode_enabled() -> bool {
    false
}

pub(crate) fn enable_raw_mode() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing is to be restored.
pub(crate) fn disable_raw_mode() -> io::Result<()> {
    Ok(())
}

pub(crate) fn size() -> io::Result<(u16, u16)> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn window_size() -> io::Result<WindowSize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Queries the terminal's support for progressive keyboard enhancement: fails.
#[cfg(feature = "events")]
pub fn supports_keyboard_enhancement() -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
