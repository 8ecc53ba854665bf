//! Blocks that are never freed, one after the other in separate regions. If they were between blocks that are
//! freed later, they would fragment the free memory.

use hermit_interface::address::{AddressRange, PAGE_SIZE};

/// Maximum size of a region in bytes, unless a single block is larger.
const MAX_REGION_SIZE: u64 = 2 << 20;

/// Value of the region before there is one.
const NOTHING: AddressRange = AddressRange { start: 0, end: 0 };

/// The region from which blocks are allocated. The caller allocates the regions, in whole pages.
#[derive(Debug)]
pub struct PermanentBlocks {
    /// The part of the region that is not allocated.
    free: AddressRange,
    /// Total size of all regions in bytes, without the pages that [`Self::take_unused`] has returned.
    total: u64,
}

impl Default for PermanentBlocks {
    fn default() -> Self {
        Self::new()
    }
}

impl PermanentBlocks {
    /// Creates an allocator without a region.
    #[must_use]
    pub const fn new() -> Self {
        Self { free: NOTHING, total: 0 }
    }

    /// Allocates a block. Returns its start; `None` if the region has no room for it.
    ///
    /// # Panics
    ///
    /// If `align` is zero.
    pub fn allocate(&mut self, size: u64, align: u64) -> Option<u64> {
        let start = self.free.start.checked_next_multiple_of(align)?;
        let end = start.checked_add(size).filter(|&end| end <= self.free.end)?;
        self.free.start = end;
        Some(start)
    }

    /// Sizes to try for the next region, for a block of `size` bytes with an alignment of at most a page. The
    /// first size is preferred: three times the size of all regions so far. So there are few regions, since
    /// each region fragments the free memory around it. The second size is as small as possible. Returns
    /// `None` if the sizes would overflow.
    #[must_use]
    pub fn region_sizes(&self, size: u64) -> Option<[u64; 2]> {
        let min = size.checked_next_multiple_of(PAGE_SIZE)?.max(PAGE_SIZE);
        Some([(3 * self.total).min(MAX_REGION_SIZE).max(min), min])
    }

    /// Continues in another region of whole pages. Returns the unused whole pages of the previous region.
    #[must_use = "the rest of the last region is to be freed"]
    pub fn set_region(&mut self, region: AddressRange) -> AddressRange {
        let unused = self.take_unused();
        self.free = region;
        self.total += region.size();
        unused
    }

    /// Gives up the unused whole pages of the region, and returns them.
    #[must_use = "the rest of the region is to be freed"]
    pub fn take_unused(&mut self) -> AddressRange {
        let start = self.free.start.next_multiple_of(PAGE_SIZE).min(self.free.end);
        let unused = AddressRange { start, end: self.free.end };
        self.free.end = start;
        self.total -= unused.size();
        unused
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{AddressRange, MAX_REGION_SIZE, NOTHING, PAGE_SIZE, PermanentBlocks};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    /// Allocates a block. If there is no room, sets a new region at `next`, and moves `next` after it.
    /// Returns the start of the block, and the memory to be freed.
    fn allocate(blocks: &mut PermanentBlocks, next: &mut u64, size: u64, align: u64) -> (u64, AddressRange) {
        if let Some(start) = blocks.allocate(size, align) {
            return (start, NOTHING);
        }
        let [wanted, min] = blocks.region_sizes(size).unwrap();
        assert!(wanted >= min && min >= size);
        let region = AddressRange { start: *next, end: *next + wanted };
        *next = region.end;
        let unused = blocks.set_region(region);
        (blocks.allocate(size, align).unwrap(), unused)
    }

    #[test]
    fn without_a_region_there_is_no_block() {
        let mut blocks = PermanentBlocks::new();
        assert_eq!(blocks.allocate(1, 1), None);
        assert_eq!(blocks.take_unused().size(), 0);
        assert_eq!(blocks.region_sizes(1), Some([PAGE_SIZE; 2]));
        assert_eq!(blocks.region_sizes(u64::MAX), None);
    }

    #[test]
    fn unused_pages_are_given_up_and_the_used_one_is_kept() {
        let mut blocks = PermanentBlocks::new();
        let region = AddressRange { start: 0x10_0000, end: 0x11_0000 };
        assert_eq!(blocks.set_region(region).size(), 0);
        assert_eq!(blocks.allocate(PAGE_SIZE + 8, 8), Some(region.start));
        assert_eq!(blocks.take_unused(), AddressRange { start: 0x10_2000, end: region.end });
        assert_eq!(blocks.take_unused().size(), 0);
        assert_eq!(blocks.allocate(PAGE_SIZE - 8, 8), Some(region.start + PAGE_SIZE + 8));
        assert_eq!(blocks.allocate(1, 1), None);
        assert_eq!(blocks.region_sizes(1), Some([6 * PAGE_SIZE, PAGE_SIZE]));
    }

    /// The kernel's data of 100,000 threads.
    #[test]
    fn small_blocks_are_in_few_regions() {
        let (mut blocks, mut next, mut regions) = (PermanentBlocks::new(), PAGE_SIZE, 0);
        let count = if cfg!(miri) { 1_000 } else { 100_000 };
        for _ in 0..count {
            let before = next;
            allocate(&mut blocks, &mut next, 384, 8);
            regions += u64::from(next != before);
        }
        assert!(regions <= 6 + 384 * count / MAX_REGION_SIZE, "{regions} regions");
    }

    proptest! {
        #[test]
        fn blocks_are_disjoint_and_not_in_freed_memory(
            wanted in vec((1..20_000_u64, 0..8_u32, proptest::bool::ANY), 1..100),
        ) {
            let (mut blocks, mut next) = (PermanentBlocks::new(), PAGE_SIZE);
            let (mut used, mut freed) = (Vec::new(), Vec::new());
            for (size, shift, reclaims) in wanted {
                let (start, unused) = allocate(&mut blocks, &mut next, size, 1 << shift);
                prop_assert!(start.is_multiple_of(1 << shift));
                used.push(AddressRange { start, end: start + size });
                freed.push(unused);
                if reclaims {
                    freed.push(blocks.take_unused());
                }
            }
            freed.push(blocks.take_unused());
            let kept: u64 = next - PAGE_SIZE - freed.iter().map(|range| range.size()).sum::<u64>();
            prop_assert_eq!(blocks.total, kept);
            let mut all: Vec<_> = used.iter().chain(&freed).filter(|range| range.size() > 0).collect();
            all.sort_by_key(|range| range.start);
            prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert!(freed.iter().all(|range| range.start.is_multiple_of(PAGE_SIZE)));
        }
    }
}
