//! Free stack slots: a bitmap for each chunk of the region.
//!
//! [`SlotTable`] records which slots exist, and is read without a lock. [`FreeSlots`] records which of these
//! slots are free, and is used under a lock of the caller. It takes a free slot if there is one, and makes a
//! new slot otherwise. If all slots of a chunk are free, the chunk can be given up. Its addresses can then be
//! used for slots of another size.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::{Chunk, SlotTable, StackSlot, slot_size};

/// Free slots of all sizes. Freeing a slot cannot fail: its bit was allocated together with its chunk.
///
/// All bits are in one block of memory. If each chunk had a block of its own, these blocks would stay
/// allocated between blocks that are freed, and fragment the free memory.
#[derive(Debug)]
pub struct FreeSlots {
    /// The chunks with slots, by number.
    chunks: Vec<ChunkSlots>,
    /// A bit for each slot of each chunk, in the same order, set if the slot is free.
    bits: Vec<u64>,
}

/// A chunk with slots.
#[derive(Debug)]
struct ChunkSlots {
    /// Number of the chunk. If a slot extends over several chunks, the number of the first one.
    number: usize,
    /// Index of the slot size.
    size: usize,
    /// Number of free slots.
    free: usize,
    /// Index of the first word of the chunk's bits in [`FreeSlots::bits`].
    bits: usize,
}

/// Error: there are no addresses for a slot, or no memory for its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSlot;

impl Default for FreeSlots {
    fn default() -> Self {
        Self::new()
    }
}

impl FreeSlots {
    /// Creates the state of a table without slots.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), bits: Vec::new() }
    }

    /// Takes a free slot, or makes one.
    ///
    /// # Errors
    ///
    /// [`NoSlot`].
    pub fn take(&mut self, table: &SlotTable, size: usize) -> Result<StackSlot, NoSlot> {
        let words = table.words_per_chunk(size);
        if let Some(chunk) = self.chunks.iter_mut().rfind(|chunk| chunk.size == size && chunk.free > 0)
            && let Some(index) = self.bits.get_mut(chunk.bits..chunk.bits + words).and_then(take_bit)
        {
            chunk.free -= 1;
            return Ok(table.slot(size, chunk.number, index));
        }
        if table.has_room(size) {
            return table.create(size).ok_or(NoSlot);
        }
        self.chunks.try_reserve(1).map_err(|_| NoSlot)?;
        self.bits.try_reserve(words).map_err(|_| NoSlot)?;
        let slot = table.create(size).ok_or(NoSlot)?;
        self.add_chunk(table.chunk_of(slot).0, size, words);
        Ok(slot)
    }

    /// Adds a chunk. The caller has reserved memory for it.
    fn add_chunk(&mut self, number: usize, size: usize, words: usize) {
        let at = self.chunks.partition_point(|chunk| chunk.number < number);
        let end = self.bits.len();
        let bits = self.chunks.get(at).map_or(end, |next| next.bits);
        self.chunks.iter_mut().skip(at).for_each(|chunk| chunk.bits += words);
        self.chunks.insert(at, ChunkSlots { number, size, free: 0, bits });
        self.bits.resize(end + words, 0);
        self.bits.copy_within(bits..end, bits + words);
        self.bits[bits..bits + words].fill(0);
    }

    /// Frees a slot. Has no effect if the slot does not exist or is free already.
    pub fn free(&mut self, table: &SlotTable, slot: StackSlot) {
        let (number, index) = table.chunk_of(slot);
        let Ok(at) = self.chunks.binary_search_by_key(&number, |chunk| chunk.number) else { return };
        let chunk = &mut self.chunks[at];
        if let Some(bits) = self.bits.get_mut(chunk.bits + index / 64).filter(|_| chunk.size == slot.size) {
            let bit = 1 << (index % 64);
            chunk.free += usize::from(*bits & bit == 0);
            *bits |= bit;
        }
    }

    /// Removes the chunks without slots in use, so that their addresses can be used for slots of other sizes.
    pub fn remove_unused(&mut self, table: &SlotTable) {
        let mut end = 0;
        self.chunks.retain_mut(|chunk| {
            let is_kept = !table.remove_chunk(chunk.size, chunk.number, chunk.free);
            if is_kept {
                let words = table.words_per_chunk(chunk.size);
                self.bits.copy_within(chunk.bits..chunk.bits + words, end);
                chunk.bits = end;
                end += words;
            }
            is_kept
        });
        self.bits.truncate(end);
    }
}

/// Clears the first set bit of a bitmap. Returns the index of this bit.
fn take_bit(bitmap: &mut [u64]) -> Option<usize> {
    let (word, bits) = bitmap.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
    let bit = bits.trailing_zeros();
    *bits &= !(1 << bit);
    Some(word * 64 + bit as usize)
}

impl SlotTable {
    /// Size of a chunk in bytes.
    fn chunk_size(&self) -> u64 {
        1 << self.chunk_shift.load(Relaxed)
    }

    /// Removes the slots of a size from a chunk. If a slot has several chunks, removes it from all of them;
    /// `number` is the first one.
    fn clear_chunks(&self, size: usize, number: usize) {
        let count = usize::try_from(slot_size(size) / self.chunk_size()).unwrap_or(usize::MAX).max(1);
        self.entries.iter().skip(number).take(count).for_each(|entry| entry.store(0, Relaxed));
    }

    /// Maximum number of slots of a size in a chunk; 1 if a slot has several chunks.
    fn slots_per_chunk(&self, size: usize) -> usize {
        let slots = self.chunk_size() / slot_size(size);
        usize::try_from(slots).unwrap_or(1).max(1)
    }

    /// Number of words for the bits of a chunk with slots of a size.
    fn words_per_chunk(&self, size: usize) -> usize {
        self.slots_per_chunk(size).div_ceil(64)
    }

    /// Returns true if [`Self::create`] makes the next slot of a size in an existing chunk.
    fn has_room(&self, size: usize) -> bool {
        self.last_chunk(size).is_some_and(|(_, chunk)| (chunk.slots as usize) < self.slots_per_chunk(size))
    }

    /// Number of the first chunk of a slot, and the index of the slot in it.
    fn chunk_of(&self, slot: StackSlot) -> (usize, usize) {
        let in_chunk = slot.offset % self.chunk_size() / slot_size(slot.size);
        let number = slot.offset / self.chunk_size();
        (usize::try_from(number).unwrap_or(usize::MAX), usize::try_from(in_chunk).unwrap_or(usize::MAX))
    }

    /// The slot with an index in a chunk.
    fn slot(&self, size: usize, chunk: usize, index: usize) -> StackSlot {
        let offset = chunk as u64 * self.chunk_size() + index as u64 * slot_size(size);
        StackSlot { size, offset }
    }

    /// Removes a chunk with slots of a size, if all its slots are free. `free` is the number of its free
    /// slots. Returns false if a slot is in use.
    fn remove_chunk(&self, size: usize, number: usize, free: usize) -> bool {
        let is_unused = self.chunk(number) == Some(Chunk { size, slots: u32::try_from(free).unwrap_or(0) });
        if is_unused {
            self.clear_chunks(size, number);
        }
        is_unused
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::tests::{GIB, START, default_size, table};
    use super::{FreeSlots, NoSlot, SlotTable, StackSlot};
    use crate::stack_slots::{SIZES, size_for, slot_size};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    fn take_all(table: &SlotTable, free: &mut FreeSlots, size: usize) -> Vec<StackSlot> {
        core::iter::from_fn(|| free.take(table, size).ok()).collect()
    }

    #[test]
    fn addresses_of_free_slots_are_used_for_other_sizes() {
        let (table, mut free) = (table(4 * GIB), FreeSlots::new());
        let mut slots = take_all(&table, &mut free, default_size());
        assert_eq!(slots.len() as u64, 4 * GIB / slot_size(default_size()));
        let large = size_for(GIB).unwrap();
        // The first slot stays in use, so its chunk must stay, with all its slots.
        let used = slots.remove(0);
        slots.iter().for_each(|&slot| free.free(&table, slot));
        assert_eq!(free.take(&table, large), Err(NoSlot));
        free.remove_unused(&table);
        let slot = free.take(&table, large).unwrap();
        assert_eq!(table.find(START + slot.offset), Some(table.bounds(slot)));
        assert_eq!(table.find(START + used.offset), Some(table.bounds(used)));
        // A large slot is freed, and its addresses are used for small ones.
        free.free(&table, slot);
        free.remove_unused(&table);
        assert_eq!(table.find(START + slot.offset), None);
        let others = take_all(&table, &mut free, default_size());
        assert_eq!(others.len(), slots.len());
        assert!(!others.contains(&used));
    }

    /// The kernel's region on a machine with 4 GiB of memory. All its slots were in use.
    #[test]
    fn freed_slots_are_taken_again_before_new_ones_are_made() {
        let count = if cfg!(miri) { 600 } else { 100_000 };
        let (table, mut free) = (table(256 * GIB), FreeSlots::new());
        let mut slots: Vec<_> = (0..count).map(|_| free.take(&table, default_size()).unwrap()).collect();
        slots.iter().rev().step_by(2).for_each(|&slot| free.free(&table, slot));
        let mut freed: Vec<_> = slots.iter().rev().step_by(2).copied().collect();
        let mut taken: Vec<_> = freed.iter().map(|_| free.take(&table, default_size()).unwrap()).collect();
        freed.sort_by_key(|slot| slot.offset);
        taken.sort_by_key(|slot| slot.offset);
        assert_eq!(freed, taken);
        let new = free.take(&table, default_size()).unwrap();
        assert!(!slots.contains(&new));
        slots.push(new);
        slots.iter().for_each(|&slot| free.free(&table, slot));
        free.remove_unused(&table);
        assert!(free.chunks.is_empty() && free.bits.is_empty());
    }

    #[test]
    fn double_free_is_ignored() {
        let (table, mut free) = (table(GIB), FreeSlots::new());
        let slots = [(); 2].map(|()| free.take(&table, 0).unwrap());
        free.free(&table, slots[0]);
        free.free(&table, slots[0]);
        free.free(&table, StackSlot { size: 3, offset: 0 });
        assert_eq!(free.take(&table, 0), Ok(slots[0]));
        assert!(!slots.contains(&free.take(&table, 0).unwrap()));
    }

    proptest! {
        /// Slots are taken and freed at random. No slot is in use twice, and no two slots overlap.
        #[test]
        fn slots_in_use_are_disjoint_and_found(
            region in 1..8 * GIB,
            steps in vec((0..SIZES, 0..100_usize, proptest::bool::ANY), 1..200),
        ) {
            let (table, mut free) = (table(region), FreeSlots::new());
            let mut used: Vec<StackSlot> = Vec::new();
            for (size, victim, removes) in steps {
                if victim < used.len() {
                    free.free(&table, used.swap_remove(victim));
                }
                if removes {
                    free.remove_unused(&table);
                }
                let Ok(slot) = free.take(&table, size) else { continue };
                let bounds = table.bounds(slot);
                for &other in &used {
                    let other = table.bounds(other);
                    prop_assert!(other.top <= bounds.guard || bounds.top <= other.guard);
                }
                used.push(slot);
                for &slot in &used {
                    let bounds = table.bounds(slot);
                    prop_assert_eq!(table.find(bounds.guard), Some(bounds));
                    prop_assert_eq!(table.find(bounds.top - 1), Some(bounds));
                }
            }
            used.iter().for_each(|&slot| free.free(&table, slot));
            free.remove_unused(&table);
            prop_assert!(used.iter().all(|slot| table.find(START + slot.offset).is_none()));
        }
    }
}
