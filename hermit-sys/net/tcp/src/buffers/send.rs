//! The send buffer: data that the peer has not acknowledged.

use super::chunks::Chunks;
use super::pool::{Pool, Purpose};
use super::{to_u32, to_usize};

/// Send buffer. Its first byte has the number SND.UNA.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    chunks: Chunks,
    size: u32,
    limit: u32,
}

impl SendBuffer {
    /// Creates an empty buffer for at most `limit` bytes.
    pub(crate) fn new(limit: u32) -> Self {
        Self { chunks: Chunks::default(), size: 0, limit }
    }

    /// Number of bytes in the buffer.
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// Maximum number of bytes in the buffer.
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Changes the maximum. Bytes already in the buffer stay.
    pub(crate) const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Number of bytes that fit.
    pub(crate) const fn room(&self) -> u32 {
        self.limit.saturating_sub(self.size)
    }

    /// Appends bytes; returns how many fitted.
    pub(crate) fn push(&mut self, bytes: &[u8], pool: &mut Pool) -> usize {
        let size = bytes.len().min(to_usize(self.room()));
        let bytes = bytes.get(..size).unwrap_or(bytes);
        let written = self.chunks.write(to_usize(self.size), bytes, pool, Purpose::Sent);
        self.size += to_u32(written);
        written
    }

    /// Returns the contiguous pieces of `size` bytes at an offset from SND.UNA.
    pub(crate) fn pieces(&self, offset: u32, size: u32) -> impl Iterator<Item = &[u8]> {
        self.chunks.pieces(to_usize(offset), to_usize(size))
    }

    /// Frees acknowledged bytes.
    pub(crate) fn advance(&mut self, size: u32, pool: &mut Pool) {
        let size = size.min(self.size);
        self.size -= size;
        if self.size == 0 {
            self.chunks.clear(pool);
        } else {
            self.chunks.advance(to_usize(size), pool);
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.advance(self.size, pool);
    }
}
