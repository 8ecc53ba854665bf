//! A stretch of a stream in chunks, of which some may be missing.

use alloc::collections::VecDeque;
use core::iter;

use super::pool::{CHUNK, Chunk, Pool};

/// Bytes by their offset from the first one that is still needed.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Option<Chunk>>,
    /// Offset of the first byte in the first chunk.
    head: usize,
}

impl Chunks {
    /// Copies bytes to an offset; returns how many were copied before there was no memory.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8], pool: &mut Pool) -> usize {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let place = self.head + offset + written;
            let Some(room) = self.room_at(place, pool) else { break };
            let size = rest.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..size), rest.get(..size)) {
                to.copy_from_slice(from);
            }
            written += size;
        }
        written
    }

    /// The memory from a place to the end of its chunk.
    fn room_at(&mut self, place: usize, pool: &mut Pool) -> Option<&mut [u8]> {
        let (index, start) = (place / CHUNK, place % CHUNK);
        let missing = (index + 1).saturating_sub(self.chunks.len());
        self.chunks.try_reserve(missing).ok()?;
        self.chunks.extend(iter::repeat_with(|| None).take(missing));
        let chunk = self.chunks.get_mut(index)?;
        if chunk.is_none() {
            *chunk = Some(pool.take()?);
        }
        chunk.as_mut()?.get_mut(start..)
    }

    /// The bytes at an offset, as far as they are in one piece.
    pub(crate) fn piece(&self, offset: usize, size: usize) -> &[u8] {
        let place = self.head + offset;
        let (index, start) = (place / CHUNK, place % CHUNK);
        let end = CHUNK.min(start + size);
        let chunk = self.chunks.get(index).and_then(Option::as_ref);
        chunk.and_then(|chunk| chunk.get(start..end)).unwrap_or(&[])
    }

    /// The pieces of `size` bytes at an offset.
    pub(crate) fn pieces(&self, mut offset: usize, mut size: usize) -> impl Iterator<Item = &[u8]> {
        iter::from_fn(move || {
            let piece = self.piece(offset, size);
            offset += piece.len();
            size -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Frees the chunks before an offset, which becomes 0.
    pub(crate) fn advance(&mut self, size: usize, pool: &mut Pool) {
        self.head += size;
        while self.head >= CHUNK {
            self.head -= CHUNK;
            if let Some(Some(chunk)) = self.chunks.pop_front() {
                pool.give(chunk);
            }
        }
    }

    /// Frees all chunks, and the list of them.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for chunk in core::mem::take(&mut self.chunks).into_iter().flatten() {
            pool.give(chunk);
        }
        self.head = 0;
    }
}
