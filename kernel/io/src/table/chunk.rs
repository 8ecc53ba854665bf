//! Chunks of the table: the first has 64 descriptors, and each further one as many as all before it together. So few
//! descriptors take little memory, and the table grows without moving what is in it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use super::MAX_DESCRIPTORS;
use super::bitmap::WORD;
use crate::Object;

/// Number of chunks for all descriptors.
pub(super) const CHUNKS: usize = (MAX_DESCRIPTORS / WORD).ilog2() as usize + 1;

/// Index of the chunk of a word of 64 descriptors, and the index of the word in the chunk.
pub(super) const fn word_position(word: usize) -> (usize, usize) {
    match word.checked_ilog2() {
        Some(top) => (top as usize + 1, word - (1 << top)),
        None => (0, 0),
    }
}

/// Index of the chunk of a descriptor, and the index of the descriptor in the chunk. There is no such chunk if the
/// descriptor is beyond the limit.
#[inline]
pub(super) const fn position(descriptor: usize) -> (usize, usize) {
    // The short path of most programs.
    if descriptor < WORD {
        return (0, descriptor);
    }
    let top = descriptor.ilog2();
    ((top - WORD.ilog2()) as usize + 1, descriptor - (1 << top))
}

/// Number of words in a chunk.
const fn word_count(chunk: usize) -> usize {
    if chunk == 0 { 1 } else { 1 << (chunk - 1) }
}

/// Memory for a range of descriptors, which never moves once the table has it.
#[derive(Debug)]
pub struct DescriptorChunk {
    pub(super) index: usize,
    pub(super) slots: Vec<Option<Arc<dyn Object>>>,
    /// A bit for each slot.
    pub(super) words: Vec<u64>,
}

/// A chunk that the table does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingChunk {
    index: usize,
}

impl MissingChunk {
    pub(super) const fn new(index: usize) -> Self {
        Self { index }
    }

    /// Allocates the chunk, up to 520 KiB.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn allocate(self) -> Result<DescriptorChunk, Errno> {
        let count = word_count(self.index);
        let (mut slots, mut words) = (Vec::new(), Vec::new());
        slots.try_reserve_exact(count * WORD).map_err(|_| Errno::ENOMEM)?;
        words.try_reserve_exact(count).map_err(|_| Errno::ENOMEM)?;
        slots.resize(count * WORD, None);
        words.resize(count, 0);
        Ok(DescriptorChunk { index: self.index, slots, words })
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS, MAX_DESCRIPTORS, MissingChunk, position, word_position};

    #[test]
    fn chunks_hold_all_descriptors_in_order() {
        let mut next = 0;
        for index in 0..CHUNKS {
            let chunk = MissingChunk::new(index).allocate().unwrap();
            assert_eq!(chunk.slots.len(), chunk.words.len() * 64);
            for offset in 0..chunk.slots.len() {
                assert_eq!(position(next), (index, offset));
                assert_eq!(word_position(next / 64), (index, offset / 64));
                next += 1;
            }
        }
        assert_eq!(next, MAX_DESCRIPTORS);
        assert_eq!(position(next).0, CHUNKS);
        assert!(position(usize::MAX).0 > CHUNKS);
    }
}
