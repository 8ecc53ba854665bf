//! Bytes of a stream, stored in chunks. The chunks of a gap may be missing.

use alloc::collections::VecDeque;
use core::iter;

use super::pool::{CHUNK, Chunk, Pool, Purpose};

/// Capacity of the list of chunks that is kept while a stream has no data.
const KEPT_CAPACITY: usize = 8;

/// Bytes, addressed by their offset from the first byte that is still needed.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// First chunk, inline: most streams never need a second one, and then allocate no list.
    first: Option<Chunk>,
    rest: VecDeque<Option<Chunk>>,
    /// Offset of the first byte in the first chunk.
    head: usize,
}

impl Chunks {
    /// Copies bytes to an offset; returns the number of copied bytes, which is smaller if memory runs out.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8], pool: &mut Pool, purpose: Purpose) -> usize {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let place = self.head + offset + written;
            let Some(room) = self.room_at(place, pool, purpose) else { break };
            let size = rest.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..size), rest.get(..size)) {
                to.copy_from_slice(from);
            }
            written += size;
        }
        written
    }

    /// Returns the memory from `place` to the end of its chunk. Allocates the chunk if it is missing.
    fn room_at(&mut self, place: usize, pool: &mut Pool, purpose: Purpose) -> Option<&mut [u8]> {
        let (index, start) = (place / CHUNK, place % CHUNK);
        let chunk = match index.checked_sub(1) {
            None => &mut self.first,
            Some(index) => {
                if index >= self.rest.len() {
                    self.extend(index + 1)?;
                }
                self.rest.get_mut(index)?
            }
        };
        match chunk {
            Some(chunk) => chunk.get_mut(start..),
            None => chunk.insert(pool.take(purpose)?).get_mut(start..),
        }
    }

    /// Extends the list of chunks to `count` entries; `None` without memory.
    #[cold]
    fn extend(&mut self, count: usize) -> Option<()> {
        self.rest.try_reserve(count.saturating_sub(self.rest.len())).ok()?;
        self.rest.resize_with(count, || None);
        Some(())
    }

    /// Returns the bytes at an offset that are contiguous in memory, at most `size`.
    pub(crate) fn piece(&self, offset: usize, size: usize) -> &[u8] {
        let place = self.head + offset;
        let (index, start) = (place / CHUNK, place % CHUNK);
        let end = CHUNK.min(start + size);
        let chunk = match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.rest.get(index).and_then(Option::as_ref),
        };
        chunk.and_then(|chunk| chunk.get(start..end)).unwrap_or(&[])
    }

    /// Returns the contiguous pieces of `size` bytes at an offset.
    pub(crate) fn pieces(&self, mut offset: usize, mut size: usize) -> impl Iterator<Item = &[u8]> {
        iter::from_fn(move || {
            let piece = self.piece(offset, size);
            offset += piece.len();
            size -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Drops the first `size` bytes and frees their chunks. The byte after them then has offset 0.
    pub(crate) fn advance(&mut self, size: usize, pool: &mut Pool) {
        self.head += size;
        while self.head >= CHUNK {
            self.head -= CHUNK;
            let next = self.rest.pop_front().flatten();
            if let Some(chunk) = core::mem::replace(&mut self.first, next) {
                pool.give(chunk);
            }
        }
    }

    /// Frees the chunks after the first `size` bytes.
    pub(crate) fn truncate(&mut self, size: usize, pool: &mut Pool) {
        if size == 0 {
            return self.clear(pool);
        }
        let count = (self.head + size).div_ceil(CHUNK);
        let kept = self.rest.len().min(count.saturating_sub(1));
        self.rest.drain(kept..).flatten().for_each(|chunk| pool.give(chunk));
    }

    /// Frees all chunks, and the list if it is long.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        if let Some(chunk) = self.first.take() {
            pool.give(chunk);
        }
        if self.rest.capacity() > KEPT_CAPACITY {
            core::mem::take(&mut self.rest).into_iter().flatten().for_each(|chunk| pool.give(chunk));
        } else {
            self.rest.drain(..).flatten().for_each(|chunk| pool.give(chunk));
        }
        self.head = 0;
    }
}
