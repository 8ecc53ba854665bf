//! Pool of memory chunks with a limit, and a cache of free chunks.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hermit_base::try_alloc::try_vec;

/// Size of a chunk in bytes.
pub const CHUNK: usize = 4096;

/// Memory of [`CHUNK`] bytes.
pub(crate) type Chunk = Box<[u8]>;

/// Divisor of the limit: this part of it may be cached as free chunks.
const KEPT_PART: usize = 16;

/// Purpose of memory that is taken from a pool. Each purpose may use only a part of the limit, so that data
/// that waits for an event cannot take the memory that this event needs:
///
/// - Data after a gap cannot be read until the gap is filled. Such data leaves room for the data that fills
///   the gap.
/// - Received data leaves room for sending. A program may write before it reads, and sent data frees its
///   memory when it is acknowledged.
/// - Connections, which peers open, leave room for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Received data after a gap: up to half of the limit may be in use.
    OutOfOrder,
    /// The state of a connection: three quarters.
    Connection,
    /// Received data that can be read: seven eighths.
    Received,
    /// Data that is to be sent: all.
    Sent,
}

impl Purpose {
    /// Maximum number of bytes in use at which this purpose still gets memory.
    const fn part_of(self, limit: usize) -> usize {
        match self {
            Self::OutOfOrder => limit / 2,
            Self::Connection => limit - limit / 4,
            Self::Received => limit - limit / 8,
            Self::Sent => limit,
        }
    }
}

/// Memory pool of a stack. It bounds the bytes in use and caches a few free chunks.
#[derive(Debug)]
pub struct Pool {
    /// Bytes that may be in use.
    limit: usize,
    /// Bytes in use: chunks, and memory that [`charge`](Self::charge) counts.
    used: usize,
    free: Vec<Chunk>,
}

impl Pool {
    /// Creates a pool with at most `limit` bytes in use.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { limit, used: 0, free: Vec::new() }
    }

    /// Bytes that may be in use.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Bytes of free chunks in the cache.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.free.len() * CHUNK
    }

    /// Frees the cached chunks.
    pub fn reclaim(&mut self) {
        self.free = Vec::new();
    }

    /// Number of chunks that can still be taken for data to be sent.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.limit.saturating_sub(self.used) / CHUNK
    }

    /// Counts `bytes` of memory outside of the chunks, unless this exceeds the part of the purpose. Returns
    /// true if the bytes are counted.
    #[must_use]
    pub const fn charge(&mut self, bytes: usize, purpose: Purpose) -> bool {
        let fits = self.fits(bytes, purpose);
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// True if a purpose may use `bytes` more.
    pub(crate) const fn fits(&self, bytes: usize, purpose: Purpose) -> bool {
        bytes <= purpose.part_of(self.limit).saturating_sub(self.used)
    }

    /// Ends the counting of `bytes` by [`charge`](Self::charge).
    pub const fn refund(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// True if more than half of the limit is in use: buffers do not grow then.
    pub(crate) const fn is_scarce(&self) -> bool {
        self.used > self.limit / 2
    }

    /// Takes a chunk, with its old contents; `None` at the limit and without memory.
    // Not inlined: otherwise the copy of a small message to an existing chunk would save more registers.
    #[inline(never)]
    pub(crate) fn take(&mut self, purpose: Purpose) -> Option<Chunk> {
        if !self.charge(CHUNK, purpose) {
            return None;
        }
        let chunk = self.free.pop().or_else(new_chunk);
        if chunk.is_none() {
            self.refund(CHUNK);
        }
        chunk
    }

    /// Returns a chunk to the pool.
    pub(crate) fn give(&mut self, chunk: Chunk) {
        self.refund(CHUNK);
        if self.kept() + CHUNK <= self.limit / KEPT_PART && self.free.try_reserve(1).is_ok() {
            self.free.push(chunk);
        }
    }
}

fn new_chunk() -> Option<Chunk> {
    try_vec(0, CHUNK).ok().map(Vec::into_boxed_slice)
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Pool, Purpose};
    use std::vec::Vec;

    #[test]
    fn pool_is_bounded_and_keeps_a_part() {
        let mut pool = Pool::new(32 * CHUNK + 1);
        let chunks: Vec<_> = core::iter::from_fn(|| pool.take(Purpose::Sent)).collect();
        assert_eq!((chunks.len(), pool.used(), pool.limit()), (32, 32 * CHUNK, 32 * CHUNK + 1));
        for chunk in chunks {
            pool.give(chunk);
        }
        assert_eq!((pool.used(), pool.kept()), (0, 2 * CHUNK));
        assert!(pool.take(Purpose::Sent).is_some());
        assert_eq!((pool.used(), pool.kept()), (CHUNK, CHUNK));
        pool.reclaim();
        assert_eq!(pool.kept(), 0);
    }

    #[test]
    fn other_memory_counts() {
        let mut pool = Pool::new(2 * CHUNK);
        assert!(!pool.charge(2 * CHUNK + 1, Purpose::Sent));
        assert!(pool.charge(CHUNK + 1, Purpose::Sent) && pool.is_scarce());
        assert!(pool.take(Purpose::Sent).is_none());
        pool.refund(1);
        assert!(pool.take(Purpose::Sent).is_some());
        assert_eq!(pool.used(), 2 * CHUNK);
    }

    #[test]
    fn each_purpose_leaves_memory_for_those_that_others_wait_for() {
        let mut pool = Pool::new(32 * CHUNK);
        while pool.take(Purpose::OutOfOrder).is_some() {}
        assert_eq!((pool.used(), pool.left()), (16 * CHUNK, 16));
        while pool.charge(CHUNK, Purpose::Connection) {}
        assert_eq!((pool.used(), pool.left()), (24 * CHUNK, 8));
        while pool.take(Purpose::Received).is_some() {}
        assert_eq!((pool.used(), pool.left()), (28 * CHUNK, 4));
        while pool.take(Purpose::Sent).is_some() {}
        assert_eq!((pool.used(), pool.left()), (32 * CHUNK, 0));
    }
}
