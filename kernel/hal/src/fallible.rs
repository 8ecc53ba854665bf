//! The error of what needs memory.

use alloc::collections::TryReserveError;

/// There is not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl From<TryReserveError> for OutOfMemory {
    fn from(_error: TryReserveError) -> Self {
        Self
    }
}
