//! A table of numbered values, for use under a spinlock: no operation allocates memory or moves values.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem;

/// Number of entries in the first chunk. Each further chunk is twice as large as the one before it.
const FIRST_CHUNK: usize = 16;

/// Maximum number of chunks. Together they have 2^20 entries.
pub(crate) const CHUNKS: usize = 16;

/// Values by number. A number is free again once its value is removed.
///
/// Entries are in chunks that never move. When [`SlotMap::insert`] fails for lack of room, the caller
/// allocates a chunk. This does not need the table, so the caller can release the lock first: see
/// [`SlotMap::plan`].
#[derive(Debug)]
pub struct SlotMap<T> {
    chunks: [Chunk<T>; CHUNKS],
    /// First entry in the list of entries that are free again.
    free: Option<usize>,
    /// Number of entries that have ever been used.
    used: usize,
}

/// Memory for more entries.
#[derive(Debug)]
pub struct Chunk<T>(Vec<Entry<T>>);

/// The size of the chunk that a table needs next.
#[derive(Clone, Copy, Debug)]
pub struct ChunkPlan(usize);

#[derive(Debug)]
enum Entry<T> {
    Used(T),
    /// The next free entry.
    Free(Option<usize>),
}

impl ChunkPlan {
    /// Allocates the chunk.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn allocate<T>(self) -> Result<Chunk<T>, TryReserveError> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(chunk_size(self.0))?;
        Ok(Chunk(entries))
    }
}

impl<T> Default for SlotMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SlotMap<T> {
    /// Creates an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: [const { Chunk(Vec::new()) }; CHUNKS], free: None, used: 0 }
    }

    /// Adds a value and returns its number.
    ///
    /// # Errors
    ///
    /// The value, if there is no room for it. The caller must then add a chunk, beginning with
    /// [`Self::plan`].
    pub fn insert(&mut self, value: T) -> Result<usize, T> {
        if let Some(number) = self.free
            && let Some(entry) = self.entry_mut(number)
        {
            let former = mem::replace(entry, Entry::Used(value));
            self.free = if let Entry::Free(next) = former { next } else { None };
            return Ok(number);
        }
        let (chunk, index) = position(self.used);
        match self.chunks.get_mut(chunk) {
            // The capacity suffices, so `push` does not allocate memory.
            Some(Chunk(entries)) if index < entries.capacity() => entries.push(Entry::Used(value)),
            _ => return Err(value),
        }
        self.used += 1;
        Ok(self.used - 1)
    }

    /// Returns the plan of the next chunk to allocate, or `None` if the table cannot grow any more.
    #[must_use]
    pub fn plan(&self) -> Option<ChunkPlan> {
        Some(position(self.used).0).filter(|&chunk| chunk < CHUNKS).map(ChunkPlan)
    }

    /// Adds a planned chunk. If another thread has added the chunk meanwhile, returns the surplus chunk. The
    /// caller frees it after it has released the lock.
    #[must_use = "it is to be freed without the lock"]
    pub fn grow(&mut self, chunk: Chunk<T>) -> Option<Chunk<T>> {
        let size = chunk.0.capacity();
        match self.chunks.iter_mut().enumerate().find(|(_, chunk)| chunk.0.capacity() == 0) {
            Some((number, vacant)) if size >= chunk_size(number) => {
                *vacant = chunk;
                None
            }
            _ => Some(chunk),
        }
    }

    /// Returns the value with a number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&T> {
        let (chunk, index) = position(number);
        match self.chunks.get(chunk)?.0.get(index)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// Returns the value with a number, for changes.
    #[must_use]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.entry_mut(number)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// Returns a number that is larger than the numbers of all values.
    #[must_use]
    pub const fn bound(&self) -> usize {
        self.used
    }

    /// Removes and returns the value with a number.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let next = self.free;
        let entry = self.entry_mut(number).filter(|entry| matches!(entry, Entry::Used(_)))?;
        let Entry::Used(value) = mem::replace(entry, Entry::Free(next)) else { return None };
        self.free = Some(number);
        Some(value)
    }

    fn entry_mut(&mut self, number: usize) -> Option<&mut Entry<T>> {
        let (chunk, index) = position(number);
        self.chunks.get_mut(chunk)?.0.get_mut(index)
    }
}

/// Number of entries in a chunk.
pub(crate) const fn chunk_size(chunk: usize) -> usize {
    FIRST_CHUNK << chunk
}

/// Returns the chunk of an entry, and the index of the entry in the chunk.
pub(crate) const fn position(number: usize) -> (usize, usize) {
    let position = number.saturating_add(FIRST_CHUNK);
    let chunk = (position.ilog2() - FIRST_CHUNK.ilog2()) as usize;
    (chunk, position - chunk_size(chunk))
}

#[cfg(test)]
mod tests;
