//! The slots of the table. They are in chunks that never move, so a slot is found without a lock. The first
//! chunk has 64 slots. Each further chunk has as many slots as all chunks before it together, so a program
//! with few descriptors needs little memory.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hermit_interface::Errno;
use lock_api::{Mutex, RawMutex};
use once_cell::race::OnceBox;

use super::MAX_DESCRIPTORS;
use super::bitmap::WORD;

/// Number of chunks for all descriptors.
const CHUNKS: usize = (MAX_DESCRIPTORS / WORD).ilog2() as usize + 1;

/// Index of the chunk of a word of 64 descriptors, and the index of the word in the chunk.
const fn word_position(word: usize) -> (usize, usize) {
    match word.checked_ilog2() {
        Some(top) => (top as usize + 1, word - (1 << top)),
        None => (0, 0),
    }
}

/// Number of words in a chunk.
const fn word_count(chunk: usize) -> usize {
    if chunk == 0 { 1 } else { 1 << (chunk - 1) }
}

/// A slot: the value of the descriptor; `None` if it is not open.
type Slot<R, T> = Mutex<R, Option<T>>;

/// Slots that are allocated together. It is an array of one box of slots, because a boxed array can be
/// allocated without a panic if there is no memory.
type Chunk<R, T> = [Box<[Slot<R, T>]>; 1];

/// A slot for each descriptor.
#[derive(Debug)]
pub(super) struct Slots<R: RawMutex, T> {
    first: [Slot<R, T>; WORD],
    /// The chunks after the first one.
    others: [OnceBox<Chunk<R, T>>; CHUNKS - 1],
}

impl<R: RawMutex, T> Slots<R, T> {
    pub(super) const fn new() -> Self {
        Self {
            first: [const { Mutex::const_new(R::INIT, None) }; WORD],
            others: [const { OnceBox::new() }; CHUNKS - 1],
        }
    }

    /// Returns the slot of a descriptor, if its chunk is allocated.
    #[inline]
    pub(super) fn get(&self, descriptor: usize) -> Option<&Slot<R, T>> {
        match self.first.get(descriptor) {
            Some(slot) => Some(slot),
            None => self.get_other(descriptor),
        }
    }

    /// Returns the slot of a descriptor, if it is in the first chunk.
    #[inline]
    pub(super) fn get_first(&self, descriptor: usize) -> Option<&Slot<R, T>> {
        self.first.get(descriptor)
    }

    #[cold]
    fn get_other(&self, descriptor: usize) -> Option<&Slot<R, T>> {
        let (chunk, word) = word_position(descriptor / WORD);
        let [slots] = self.others.get(chunk.checked_sub(1)?)?.get()?;
        slots.get(word * WORD + descriptor % WORD)
    }

    /// Allocates the chunk with the slot of a descriptor if the chunk is missing. A chunk has at most 2 MiB.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EMFILE` for a descriptor beyond the limit.
    pub(super) fn prepare(&self, descriptor: usize) -> Result<(), Errno> {
        if self.get(descriptor).is_some() {
            return Ok(());
        }
        let (chunk, _) = word_position(descriptor / WORD);
        let place = chunk.checked_sub(1).and_then(|index| self.others.get(index)).ok_or(Errno::EMFILE)?;
        let count = word_count(chunk) * WORD;
        let mut slots = Vec::new();
        slots.try_reserve_exact(count)?;
        slots.resize_with(count, || Mutex::const_new(R::INIT, None));
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(1).map_err(|_| Errno::ENOMEM)?;
        chunk.push(slots.into_boxed_slice());
        let chunk: Box<Chunk<R, T>> = chunk.into_boxed_slice().try_into().map_err(|_| Errno::ENOMEM)?;
        // If another thread has allocated the chunk first, its slots stay, and these are dropped.
        let _: Result<(), _> = place.set(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS, Errno, MAX_DESCRIPTORS, Slots};
    use parking_lot::RawMutex;
    extern crate std;

    use std::collections::HashSet;
    use std::ptr;

    #[test]
    #[cfg_attr(miri, ignore = "each look at a slot is a look at its whole chunk: minutes")]
    fn each_descriptor_has_a_slot() {
        let slots: Slots<RawMutex, u32> = Slots::new();
        let mut known = HashSet::new();
        for _ in 0..CHUNKS {
            assert_eq!(slots.get(known.len()).is_none(), !known.is_empty(), "a chunk exists");
            assert_eq!(slots.prepare(known.len()), Ok(()));
            while let Some(slot) = slots.get(known.len()) {
                assert!(known.insert(ptr::from_ref(slot)), "two descriptors have the same slot");
            }
        }
        assert_eq!(known.len(), MAX_DESCRIPTORS);
        assert!(slots.get(usize::MAX).is_none());
        assert_eq!(slots.prepare(known.len()), Err(Errno::EMFILE));
    }
}
