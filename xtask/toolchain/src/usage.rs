//! Errors of the command line, which have an exit code of their own.

use std::fmt::{self, Display, Formatter};

use anyhow::Error;

/// Error of an invalid command line. This includes options that are valid each, but not together.
#[derive(Debug)]
pub struct UsageError(String);

impl Display for UsageError {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns an error of the command line.
pub fn usage_error(text: impl Into<String>) -> Error {
    UsageError(text.into()).into()
}
