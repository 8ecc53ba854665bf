//! Ranges of addresses that get memory when they are touched.
//!
//! Each range is the part by which a block has grown. So a range ends where its block ends, and a partial
//! removal always removes the end of a range.

use hermit_interface::address::AddressRange;

/// Error: there is no room for another range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are too many lazy ranges")]
pub struct TooMany;

/// At most `MAX` ranges, in no order.
#[derive(Debug, Default)]
pub struct LazyRanges<const MAX: usize> {
    ranges: heapless::Vec<AddressRange, MAX>,
}

impl<const MAX: usize> LazyRanges<MAX> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: heapless::Vec::new() }
    }

    /// Adds a range.
    ///
    /// # Errors
    ///
    /// [`TooMany`].
    pub fn add(&mut self, range: AddressRange) -> Result<(), TooMany> {
        self.ranges.push(range).map_err(|_| TooMany)
    }

    /// The range of an address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<AddressRange> {
        self.ranges.iter().find(|range| (range.start..range.end).contains(&address)).copied()
    }

    /// Removes addresses, which must extend to the end of a block.
    pub fn remove(&mut self, removed: AddressRange) {
        self.ranges.retain_mut(|range| {
            if removed.start < range.end && range.start < removed.end {
                range.end = range.end.min(removed.start);
            }
            range.start < range.end
        });
    }

    /// Moves the ranges of a block to its new address.
    pub fn relocate(&mut self, block: AddressRange, to: u64) {
        for range in self.ranges.iter_mut().filter(|range| (block.start..block.end).contains(&range.start)) {
            let start = range.start - block.start + to;
            *range = AddressRange { start, end: start + range.size() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressRange, LazyRanges, TooMany};

    fn range(start: u64, end: u64) -> AddressRange {
        AddressRange { start, end }
    }

    #[test]
    fn addresses_of_a_range_are_found() {
        let mut ranges = LazyRanges::<2>::new();
        ranges.add(range(10, 20)).unwrap();
        assert_eq!([9, 10, 19, 20].map(|address| ranges.find(address).is_some()), [false, true, true, false]);
    }

    #[test]
    fn block_that_shrinks_cuts_its_range() {
        let mut ranges = LazyRanges::<2>::new();
        ranges.add(range(10, 20)).unwrap();
        ranges.add(range(30, 40)).unwrap();
        ranges.remove(range(15, 20));
        assert_eq!(ranges.find(14), Some(range(10, 15)));
        ranges.remove(range(0, 15));
        assert_eq!(ranges.find(14), None);
        assert_eq!(ranges.find(39), Some(range(30, 40)), "another block keeps its range");
    }

    #[test]
    fn block_that_moves_takes_its_ranges_along() {
        let mut ranges = LazyRanges::<3>::new();
        ranges.add(range(10, 20)).unwrap();
        ranges.add(range(20, 25)).unwrap();
        ranges.add(range(30, 40)).unwrap();
        ranges.relocate(range(0, 25), 100);
        assert_eq!(ranges.find(110), Some(range(110, 120)));
        assert_eq!(ranges.find(124), Some(range(120, 125)));
        assert_eq!((ranges.find(10), ranges.find(30)), (None, Some(range(30, 40))));
    }

    #[test]
    fn number_of_ranges_is_bounded() {
        let mut ranges = LazyRanges::<1>::new();
        ranges.add(range(10, 20)).unwrap();
        assert_eq!(ranges.add(range(30, 40)), Err(TooMany));
        ranges.remove(range(10, 20));
        assert_eq!(ranges.add(range(30, 40)), Ok(()));
    }
}
