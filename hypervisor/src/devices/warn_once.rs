//! Warnings that a guest can cause.

use std::fmt;

/// Says something the first time only, so that no guest fills the host's log.
#[derive(Debug, Default)]
pub(crate) struct WarnOnce {
    said: bool,
}

impl WarnOnce {
    /// Warns, unless there has been a warning already.
    pub(crate) fn warn(&mut self, message: fmt::Arguments<'_>) {
        if !std::mem::replace(&mut self.said, true) {
            log::warn!("{message}");
        }
    }
}
