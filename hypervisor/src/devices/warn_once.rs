//! Rate limit of warnings that a guest can cause.

use std::fmt;

/// Logs only the first warning, so that a guest cannot fill the host's log.
#[derive(Debug, Default)]
pub(crate) struct WarnOnce {
    has_warned: bool,
}

impl WarnOnce {
    /// Logs a warning, unless one was logged before.
    pub(crate) fn warn(&mut self, message: fmt::Arguments<'_>) {
        if !std::mem::replace(&mut self.has_warned, true) {
            log::warn!("{message}");
        }
    }
}
