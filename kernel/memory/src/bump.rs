//! A region from which blocks are allocated one after the other. Only the last block can be freed. It is the
//! heap of programs that end before their memory is used up.

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

/// Alignment of blocks in bytes. Sizes of blocks are rounded up to multiples of it.
pub const ALIGN: usize = 16;

const PAGE: usize = to_usize(PAGE_SIZE);

/// The part of a region that is not allocated. Its start is a multiple of [`ALIGN`], and its end is a
/// multiple of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BumpRegion {
    /// Address of the next block.
    pub next: usize,
    /// Address after the region.
    pub end: usize,
}

/// Rounds the size of a block up to [`ALIGN`]. The block fits in a region.
#[inline]
const fn rounded(size: usize) -> usize {
    (size + (ALIGN - 1)) & !(ALIGN - 1)
}

/// Address after a block that was allocated in any region.
#[inline]
#[must_use]
pub const fn end_of(start: usize, size: usize) -> usize {
    start + rounded(size)
}

impl BumpRegion {
    /// A region without memory.
    pub const EMPTY: Self = Self { next: 0, end: 0 };

    /// Number of bytes that are free.
    #[inline]
    #[must_use]
    pub const fn free(self) -> usize {
        self.end - self.next
    }

    /// Allocates a block, aligned to [`ALIGN`], at [`Self::next`]. Returns the remaining region; `None` if
    /// there is no room, or the size is zero.
    #[inline]
    #[must_use]
    pub fn allocate(self, size: usize) -> Option<Self> {
        // The end is a multiple of the alignment. So if the size fits, the rounded size fits, too.
        (size.wrapping_sub(1) < self.free()).then(|| Self { next: end_of(self.next, size), ..self })
    }

    /// The part of the region that begins at the next multiple of `align`, which is a power of two; `None` if
    /// this part is empty.
    #[must_use]
    pub fn aligned(self, align: usize) -> Option<Self> {
        let next = self.next.checked_next_multiple_of(align.max(ALIGN))?;
        (next <= self.end).then_some(Self { next, ..self })
    }

    /// Frees a block that was allocated in any region. Returns the region including the freed block; `None`
    /// if the block is not the last one of this region.
    #[must_use]
    pub fn deallocate(self, start: usize, size: usize) -> Option<Self> {
        (end_of(start, size) == self.next).then_some(Self { next: start, ..self })
    }

    /// Changes the size of a block in place. The block was allocated in any region. Returns the remaining
    /// region; `None` if there is no room, or if the block would grow but is not the last block of this
    /// region.
    #[must_use]
    pub fn resize(self, start: usize, old: usize, size: usize) -> Option<Self> {
        match self.deallocate(start, old) {
            Some(without) => without.allocate(size),
            None => (size <= rounded(old)).then_some(self),
        }
    }

    /// Takes the whole pages out of the region. Returns the region without them, and their address and size
    /// in bytes.
    #[must_use]
    pub fn take_pages(self) -> (Self, usize, usize) {
        let start = self.next.next_multiple_of(PAGE).min(self.end);
        (Self { end: start, ..self }, start, self.end - start)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{ALIGN, BumpRegion, PAGE, rounded};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    const START: usize = 0x10_0000;
    const REGION: BumpRegion = BumpRegion { next: START, end: START + 16 * PAGE };

    #[test]
    fn empty_region_has_no_block_and_no_pages() {
        assert_eq!(BumpRegion::EMPTY.allocate(1), None);
        assert_eq!(BumpRegion::EMPTY.allocate(usize::MAX), None);
        assert_eq!(BumpRegion::EMPTY.take_pages(), (BumpRegion::EMPTY, 0, 0));
    }

    #[test]
    fn region_is_allocated_to_its_last_byte_and_not_beyond() {
        let rest = REGION.allocate(16 * PAGE - 1).unwrap();
        assert_eq!((rest.free(), rest.allocate(1)), (0, None));
        assert_eq!(REGION.allocate(16 * PAGE + 1), None);
        assert_eq!([0, usize::MAX].map(|size| REGION.allocate(size)), [None; 2]);
    }

    #[test]
    fn only_the_last_block_is_freed() {
        let one = REGION.allocate(40).unwrap();
        let two = one.allocate(1).unwrap();
        assert_eq!(two.deallocate(START, 40), None);
        assert_eq!(two.deallocate(one.next, 1), Some(one));
        assert_eq!(one.deallocate(START, 40), Some(REGION));
    }

    #[test]
    fn last_block_grows_and_others_only_shrink() {
        let one = REGION.allocate(40).unwrap();
        let two = one.allocate(8).unwrap();
        assert_eq!(one.resize(START, 40, 16 * PAGE).map(BumpRegion::free), Some(0));
        assert_eq!(one.resize(START, 40, 16 * PAGE + 1), None);
        assert_eq!(one.resize(START, 40, 1), REGION.allocate(1));
        assert_eq!(two.resize(START, 40, 48), Some(two));
        assert_eq!(two.resize(START, 40, 49), None);
    }

    #[test]
    fn alignment_skips_bytes_unless_there_are_too_few() {
        let region = REGION.allocate(1).unwrap();
        assert_eq!(region.aligned(8), Some(region));
        assert_eq!(region.aligned(PAGE).map(|region| region.next), Some(START + PAGE));
        assert_eq!(region.aligned(32 * START), None);
        assert_eq!(region.aligned(1 << 63), None);
    }

    #[test]
    fn pages_behind_the_last_block_are_taken() {
        let region = REGION.allocate(PAGE + 1).unwrap();
        let (rest, start, size) = region.take_pages();
        assert_eq!((start, size, rest.end), (START + 2 * PAGE, 14 * PAGE, START + 2 * PAGE));
        assert_eq!(rest.take_pages(), (rest, START + 2 * PAGE, 0));
    }

    proptest! {
        /// Blocks are allocated, resized and freed in any order. Existing blocks are disjoint and inside the
        /// region.
        #[test]
        fn blocks_are_disjoint(steps in vec((0..4_u8, 1..2_000_usize, 0..8_u32, proptest::num::usize::ANY), 1..200)) {
            let mut region = REGION;
            let mut blocks: Vec<(usize, usize)> = Vec::new();
            for (step, size, shift, pick) in steps {
                let index = pick % blocks.len().max(1);
                match (step, blocks.get(index).copied()) {
                    (0, Some((start, old))) => {
                        blocks.swap_remove(index);
                        region = region.deallocate(start, old).unwrap_or(region);
                    }
                    (1, Some((start, old))) => {
                        if let Some(rest) = region.resize(start, old, size) {
                            region = rest;
                            blocks[index].1 = size;
                        }
                    }
                    _ => {
                        let aligned = region.aligned(1 << shift);
                        if let Some((aligned, rest)) = aligned.and_then(|region| Some((region, region.allocate(size)?))) {
                            prop_assert!(aligned.next.is_multiple_of(ALIGN.max(1 << shift)));
                            blocks.push((aligned.next, size));
                            region = rest;
                        }
                    }
                }
                prop_assert_eq!(region.end, REGION.end);
                let mut ranges: Vec<_> = blocks.iter().map(|&(start, size)| (start, start + rounded(size))).collect();
                ranges.extend([(0, START), (region.next, region.end)]);
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:x?}", ranges);
            }
        }
    }
}
