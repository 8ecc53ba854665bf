//! Spans: pieces of memory that the heap divides into blocks of one size.
//!
//! A general allocator writes a header for each block, and searches, divides and joins free pieces. This is
//! unnecessary work for a program that allocates a million small blocks of the same size. A [span](SIZE) has
//! blocks of one size class. Freed blocks are in a list that is linked through their first words. The blocks
//! at and above the address in [`FRESH`] have never been allocated. So allocating and freeing take only a few
//! memory accesses. A span without blocks in use goes back to the caller, who frees its memory.
//!
//! The address of a block does not tell if the block is in a span. So a bitmap has a bit for each aligned
//! piece of memory that could be a span.
//!
//! The caller provides the memory, and implements access to it ([`Words`]).

use hermit_interface::address::{AddressRange, PAGE_SIZE};

use crate::frames::Words;
use crate::size_classes;

/// Size and alignment of a span in bytes.
pub const SIZE: u64 = 64 << 10;

/// Size in bytes of the largest blocks in spans. A span has room for 63 blocks of this size.
const MAX_BLOCK: usize = 1024;

/// Number of size classes whose blocks may lie in spans.
pub const CLASSES: usize = MAX_BLOCK / size_classes::ALIGN;

/// Size in bytes of the header at the start of a span. It is 64, so that blocks of 64 bytes do not cross
/// cache lines.
const HEADER: u64 = 64;

/// Offsets of the words in the header of a span: the next and the previous span with free blocks of the same
/// class, the first freed block, the first block that was never allocated, and the number of free blocks.
const NEXT: u64 = 0;
const PREVIOUS: u64 = 8;
const FREED: u64 = 16;
const FRESH: u64 = 24;
const FREE: u64 = 32;

/// End of a list.
const NONE: u64 = 0;

/// Size of a word in bytes, and in bits.
const WORD: u64 = 8;
const BITS: u64 = 64;

/// The spans of a heap.
#[derive(Debug)]
pub struct Spans {
    /// For each class, the first span that has free blocks.
    usable: [u64; CLASSES],
    /// Memory in which spans may lie.
    memory: AddressRange,
    /// Address of the bitmap of `memory`.
    bitmap: u64,
    /// Size of the free blocks in bytes.
    available: u64,
}

impl Default for Spans {
    fn default() -> Self {
        Self::new()
    }
}

/// Size of the blocks of a class in bytes.
#[inline]
const fn block_size(class: usize) -> u64 {
    ((class + 1) * size_classes::ALIGN) as u64
}
const _: () = assert!(size_classes::size(CLASSES - 1) == MAX_BLOCK, "the classes of spans are `ALIGN` apart");

/// Number of blocks of a span, by class.
static CAPACITIES: [u16; CLASSES] = {
    let mut capacities = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let [low, high, ..] = ((SIZE - HEADER) / block_size(class)).to_le_bytes();
        capacities[class] = u16::from_le_bytes([low, high]);
        class += 1;
    }
    capacities
};

/// Number of blocks of a span.
#[inline]
fn capacity(class: usize) -> u64 {
    CAPACITIES.get(class).copied().unwrap_or(0).into()
}

impl Spans {
    /// No spans, and no memory for spans.
    #[must_use]
    pub const fn new() -> Self {
        let memory = AddressRange { start: 0, end: 0 };
        Self { usable: [NONE; CLASSES], memory, bitmap: 0, available: 0 }
    }

    /// Size in bytes, in whole pages, of the bitmap for spans in `memory`.
    #[must_use]
    pub const fn bitmap_size(memory: AddressRange) -> u64 {
        (memory.end - memory.start)
            .div_ceil(SIZE)
            .div_ceil(BITS)
            .saturating_mul(WORD)
            .next_multiple_of(PAGE_SIZE)
    }

    /// True if there is a bitmap.
    #[must_use]
    pub const fn has_bitmap(&self) -> bool {
        self.bitmap != 0
    }

    /// Sets the bitmap for spans in `memory`, which starts at a multiple of [`SIZE`], to the
    /// [`Self::bitmap_size`] bytes at `bitmap`. There are no spans yet.
    pub fn set_bitmap(&mut self, words: &mut impl Words, bitmap: u64, memory: AddressRange) {
        for offset in (0..Self::bitmap_size(memory)).step_by(8) {
            words.write(bitmap + offset, 0);
        }
        self.bitmap = bitmap;
        self.memory = memory;
    }

    /// Size of the free blocks in bytes.
    #[must_use]
    pub const fn available(&self) -> u64 {
        self.available
    }

    /// Address of the word of the bitmap for a span, and the span's bit in this word.
    const fn bit(&self, span: u64) -> (u64, u64) {
        let number = (span - self.memory.start) / SIZE;
        (self.bitmap + number / BITS * WORD, 1 << (number % BITS))
    }

    /// True if a block of the heap lies in a span.
    #[inline]
    pub fn contains(&self, words: &impl Words, block: u64) -> bool {
        if block < self.memory.start || block >= self.memory.end {
            return false;
        }
        let (word, bit) = self.bit(block);
        words.read(word) & bit != 0
    }

    /// Adds a span at a multiple of [`SIZE`] in the memory of the bitmap, for blocks of a class below
    /// [`CLASSES`].
    pub fn add(&mut self, words: &mut impl Words, span: u64, class: usize) {
        let (word, bit) = self.bit(span);
        words.write(word, words.read(word) | bit);
        words.write(span + FREED, NONE);
        words.write(span + FRESH, span + HEADER);
        words.write(span + FREE, capacity(class));
        self.available += capacity(class) * block_size(class);
        self.link(words, span, class);
    }

    /// Adds a span at the front of the list of spans with free blocks of its class.
    fn link(&mut self, words: &mut impl Words, span: u64, class: usize) {
        let next = self.usable[class];
        words.write(span + NEXT, next);
        words.write(span + PREVIOUS, NONE);
        if next != NONE {
            words.write(next + PREVIOUS, span);
        }
        self.usable[class] = span;
    }

    /// Removes a span from the list of spans with free blocks of its class.
    fn unlink(&mut self, words: &mut impl Words, span: u64, class: usize) {
        let (next, previous) = (words.read(span + NEXT), words.read(span + PREVIOUS));
        if previous == NONE {
            self.usable[class] = next;
        } else {
            words.write(previous + NEXT, next);
        }
        if next != NONE {
            words.write(next + PREVIOUS, previous);
        }
    }

    /// Allocates a block of a class. Returns `None` if no span of the class has a free block.
    #[inline]
    pub fn allocate(&mut self, words: &mut impl Words, class: usize) -> Option<u64> {
        let span = *self.usable.get(class).filter(|&&span| span != NONE)?;
        let freed = words.read(span + FREED);
        let block = if freed == NONE {
            let fresh = words.read(span + FRESH);
            words.write(span + FRESH, fresh + block_size(class));
            fresh
        } else {
            words.write(span + FREED, words.read(freed));
            freed
        };
        let free = words.read(span + FREE) - 1;
        words.write(span + FREE, free);
        self.available -= block_size(class);
        if free == 0 {
            self.unlink(words, span, class);
        }
        Some(block)
    }

    /// Frees a block of a class, which must be in a span. If the span has no more blocks in use, removes the
    /// span and returns its address: its [`SIZE`] bytes belong to the caller again.
    #[inline]
    pub fn free(&mut self, words: &mut impl Words, block: u64, class: usize) -> Option<u64> {
        let span = block / SIZE * SIZE;
        let free = words.read(span + FREE) + 1;
        words.write(block, words.read(span + FREED));
        words.write(span + FREED, block);
        words.write(span + FREE, free);
        self.available += block_size(class);
        if free == 1 {
            self.link(words, span, class);
        }
        (free == capacity(class)).then(|| self.remove(words, span, class))
    }

    /// Removes a span without blocks in use.
    fn remove(&mut self, words: &mut impl Words, span: u64, class: usize) -> u64 {
        self.unlink(words, span, class);
        let (word, bit) = self.bit(span);
        words.write(word, words.read(word) & !bit);
        self.available -= capacity(class) * block_size(class);
        span
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{CLASSES, SIZE, Spans, block_size, capacity};
    use crate::frames::Words;
    use hermit_interface::address::AddressRange;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    /// Memory in which spans may lie, and the address of the bitmap.
    const MEMORY: AddressRange = AddressRange { start: SIZE, end: SIZE * 70 };
    const BITMAP: u64 = MEMORY.end;

    /// Memory that is not zero before it is written.
    #[derive(Default)]
    struct Memory(BTreeMap<u64, u64>);

    impl Words for Memory {
        fn read(&self, address: u64) -> u64 {
            assert_eq!(address % 8, 0);
            self.0.get(&address).copied().unwrap_or(0xdead_beef)
        }

        fn write(&mut self, address: u64, value: u64) {
            assert_eq!(address % 8, 0);
            self.0.insert(address, value);
        }
    }

    fn spans() -> (Spans, Memory) {
        let (mut spans, mut memory) = (Spans::new(), Memory::default());
        assert!(!spans.has_bitmap() && !spans.contains(&memory, MEMORY.start));
        spans.set_bitmap(&mut memory, BITMAP, MEMORY);
        (spans, memory)
    }

    #[test]
    fn span_has_all_of_its_blocks_once() {
        for class in [0, 2, CLASSES - 1] {
            let (mut spans, mut memory) = spans();
            assert_eq!(spans.allocate(&mut memory, class), None);
            spans.add(&mut memory, 2 * SIZE, class);
            let blocks: BTreeSet<u64> = core::iter::from_fn(|| spans.allocate(&mut memory, class)).collect();
            assert_eq!((blocks.len() as u64, spans.available()), (capacity(class), 0));
            let last = blocks.last().map(|block| block + block_size(class));
            assert!(blocks.first() > Some(&(2 * SIZE)) && last <= Some(3 * SIZE));
            let ends = blocks.iter().zip(blocks.iter().skip(1));
            assert!(ends.into_iter().all(|(block, next)| block + block_size(class) <= *next));
        }
    }

    #[test]
    fn span_without_used_blocks_is_returned() {
        let (mut spans, mut memory) = spans();
        spans.add(&mut memory, 65 * SIZE, 3);
        let blocks = [(); 2].map(|()| spans.allocate(&mut memory, 3).unwrap());
        assert!(blocks.iter().all(|&block| spans.contains(&memory, block)));
        assert!(!spans.contains(&memory, 64 * SIZE) && !spans.contains(&memory, 66 * SIZE));
        assert!(!spans.contains(&memory, SIZE - 16) && !spans.contains(&memory, MEMORY.end));
        assert_eq!(blocks.map(|block| spans.free(&mut memory, block, 3)), [None, Some(65 * SIZE)]);
        assert!(!spans.contains(&memory, blocks[0]));
        assert_eq!((spans.available(), spans.allocate(&mut memory, 3)), (0, None));
    }

    #[test]
    fn block_that_was_freed_in_a_full_span_is_allocated_again() {
        let (mut spans, mut memory) = spans();
        for span in [2, 3] {
            spans.add(&mut memory, span * SIZE, 9);
        }
        let blocks: Vec<u64> = core::iter::from_fn(|| spans.allocate(&mut memory, 9)).collect();
        for block in [blocks[5], blocks[blocks.len() - 5]] {
            assert_eq!(spans.free(&mut memory, block, 9), None);
            assert_eq!([(); 2].map(|()| spans.allocate(&mut memory, 9)), [Some(block), None]);
        }
    }

    #[test]
    fn class_beyond_those_of_spans_has_no_block() {
        let (mut spans, mut memory) = spans();
        assert_eq!(spans.allocate(&mut memory, CLASSES), None);
    }

    /// [`Spans`] under test, and the blocks that are in use with their classes.
    struct Model {
        spans: Spans,
        memory: Memory,
        free: Vec<u64>,
        used: Vec<(u64, usize)>,
    }

    impl Model {
        fn allocate(&mut self, class: usize) {
            let block = self.spans.allocate(&mut self.memory, class).or_else(|| {
                self.spans.add(&mut self.memory, self.free.pop()?, class);
                self.spans.allocate(&mut self.memory, class)
            });
            let Some(block) = block else {
                let available = self.available(class);
                return assert_eq!(available, 0, "a span has a free block");
            };
            let end = block + block_size(class);
            let overlaps = |&(other, class): &(u64, usize)| block < other + block_size(class) && other < end;
            assert!(!self.used.iter().any(overlaps));
            self.used.push((block, class));
        }

        fn free(&mut self, index: usize) {
            if self.used.is_empty() {
                return;
            }
            let (block, class) = self.used.swap_remove(index % self.used.len());
            // Overwrites the block, as the program's data would.
            self.memory.write(block, u64::MAX);
            self.free.extend(self.spans.free(&mut self.memory, block, class));
        }

        /// Size of the free blocks of a class in all spans that have a block in use.
        fn available(&self, class: usize) -> u64 {
            let of_class = self.used.iter().filter(|&&(_, other)| other == class);
            let used: Vec<u64> = of_class.map(|&(block, _)| block).collect();
            let spans: BTreeSet<u64> = used.iter().map(|block| block / SIZE).collect();
            (spans.len() as u64 * capacity(class) - used.len() as u64) * block_size(class)
        }
    }

    proptest! {
        #[test]
        fn blocks_in_use_do_not_overlap(
            steps in vec((0..3_usize, 1..90_usize, any::<usize>()), 1..if cfg!(miri) { 4 } else { 60 }),
        ) {
            let (spans, memory) = spans();
            let free = (1..8).map(|number| number * SIZE).collect();
            let mut model = Model { spans, memory, free, used: Vec::new() };
            // Classes with few blocks in a span, so that spans often become full and empty.
            let classes = [CLASSES - 1, CLASSES - 2, CLASSES / 2];
            for (which, count, index) in steps {
                (0..count).for_each(|_| model.allocate(classes[which]));
                let freed = if index.is_multiple_of(5) { model.used.len() } else { index % 80 };
                (0..freed).for_each(|step| model.free(index.wrapping_add(step * 7)));
                let available = classes.map(|class| model.available(class));
                prop_assert_eq!(model.spans.available(), available.iter().sum::<u64>());
                prop_assert!(model.used.iter().all(|&(block, _)| model.spans.contains(&model.memory, block)));
                let spans: BTreeSet<u64> = model.used.iter().map(|(block, _)| block / SIZE).collect();
                prop_assert_eq!(spans.len() + model.free.len(), 7);
            }
        }
    }
}
