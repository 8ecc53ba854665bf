//! Memory for data: chunks that all connections share, so that a connection without data has none.

pub(crate) mod chunks;
mod pool;
pub(crate) mod receive;
pub(crate) mod send;

pub use pool::{CHUNK, Pool, Purpose};

/// Converts a number of bytes to `usize`, which has at least 32 bits on all supported processors.
pub(crate) fn to_usize(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Converts a number of bytes, always less than 4 GiB, to `u32`.
pub(crate) fn to_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
