//! Errors of loading an image.

use hermit_paging::PagingError;

/// Why an image cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The machine has too little memory.
    #[error("the machine has too little memory for the image")]
    OutOfMemory,
    /// The command line is longer than 4 GiB.
    #[error("the command line is too long")]
    CommandLine,
    /// Addresses of the image are invalid or overlap. Does not happen for an image that was checked.
    #[error("the image's addresses are not valid")]
    Addresses,
}

impl From<PagingError> for LoadError {
    fn from(error: PagingError) -> Self {
        match error {
            PagingError::OutOfMemory => Self::OutOfMemory,
            _ => Self::Addresses,
        }
    }
}
