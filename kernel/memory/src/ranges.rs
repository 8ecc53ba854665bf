//! A table of free ranges, of physical memory or of virtual addresses.
//!
//! The table is a sorted list of ranges that are neither overlapping nor adjacent: freeing a range merges it
//! with its neighbours. So the cost depends on the number of ranges, not on their size. Allocation is first
//! fit from the lowest address. [`FreeRanges`] has a fixed capacity and needs no heap, so that loader,
//! hypervisor and kernel can use it. Freeing or removing a range may need one more entry when the table is
//! full. The caller then decides what happens to the range.

use core::ops::DerefMut;

use heapless::Vec;
use hermit_interface::address::AddressRange;

/// Reason why a range cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// A part of the range is free already.
    #[error("freed twice")]
    NotAllocated,
    /// The table is full: there are too many free ranges.
    #[error("too many free ranges")]
    TableFull,
}

/// A list for the ranges of a [`Ranges`] table.
pub trait RangeList: DerefMut<Target = [AddressRange]> {
    /// Inserts a range at an index up to the length.
    ///
    /// # Errors
    ///
    /// [`FreeError::TableFull`] if there is no room; then nothing has changed.
    fn insert(&mut self, index: usize, range: AddressRange) -> Result<(), FreeError>;

    /// Removes and returns the range at an index below the length.
    fn remove(&mut self, index: usize) -> AddressRange;
}

impl<const N: usize> RangeList for Vec<AddressRange, N> {
    fn insert(&mut self, index: usize, range: AddressRange) -> Result<(), FreeError> {
        Self::insert(self, index, range).map_err(|_| FreeError::TableFull)
    }

    fn remove(&mut self, index: usize) -> AddressRange {
        Self::remove(self, index)
    }
}

/// A table of free ranges.
#[derive(Debug, Clone, Default)]
pub struct Ranges<L> {
    free: L,
}

/// A table of at most `N` free ranges.
pub type FreeRanges<const N: usize> = Ranges<Vec<AddressRange, N>>;

impl<const N: usize> FreeRanges<N> {
    /// Creates an empty table: nothing is free.
    #[must_use]
    pub const fn new() -> Self {
        Self { free: Vec::new() }
    }
}

impl<L: RangeList> Ranges<L> {
    /// Creates a table with an empty list: nothing is free.
    #[must_use]
    pub const fn with_list(list: L) -> Self {
        Self { free: list }
    }

    /// The free ranges in ascending order.
    #[must_use]
    pub fn as_slice(&self) -> &[AddressRange] {
        &self.free
    }

    /// Total size of the free ranges.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.free.iter().map(|range| range.size()).sum()
    }

    /// Allocates `size` contiguous addresses, aligned to `align`, at the lowest possible start (first fit).
    ///
    /// Returns the start; `None` if no free range fits or `size` is 0.
    ///
    /// # Panics
    ///
    /// If `align` is zero.
    pub fn allocate(&mut self, size: u64, align: u64) -> Option<u64> {
        if size == 0 {
            return None;
        }
        let start = self.free.iter().find_map(|range| {
            let start = range.start.checked_next_multiple_of(align)?;
            (start.checked_add(size)? <= range.end).then_some(start)
        })?;
        let taken = AddressRange { start, end: start + size };
        self.remove(taken).ok()?;
        Some(start)
    }

    /// Removes `taken` from the free ranges. A part of it may be in use already.
    ///
    /// # Errors
    ///
    /// [`FreeError::TableFull`] if the removal splits a range and the table is full; then nothing has
    /// changed.
    pub fn remove(&mut self, taken: AddressRange) -> Result<(), FreeError> {
        let mut index = 0;
        while let Some(&range) = self.free.get(index) {
            let (before, after) = (
                AddressRange { end: range.end.min(taken.start), ..range },
                AddressRange { start: range.start.max(taken.end), ..range },
            );
            match (before.size() > 0, after.size() > 0) {
                _ if range.end <= taken.start || range.start >= taken.end => index += 1,
                (true, true) => {
                    self.free.insert(index + 1, after)?;
                    self.free[index] = before;
                    return Ok(());
                }
                (true, false) => self.free[index] = before,
                (false, true) => self.free[index] = after,
                (false, false) => {
                    self.free.remove(index);
                }
            }
        }
        Ok(())
    }

    /// Frees a range, and merges it with adjacent free ranges.
    ///
    /// # Errors
    ///
    /// See [`FreeError`]; then nothing has changed.
    pub fn free(&mut self, range: AddressRange) -> Result<(), FreeError> {
        if range.size() == 0 {
            return Ok(());
        }
        let index = self.free.partition_point(|other| other.end <= range.start);
        if self.free.get(index).is_some_and(|next| next.start < range.end) {
            return Err(FreeError::NotAllocated);
        }
        let joins_next = self.free.get(index).is_some_and(|next| next.start == range.end);
        let previous = index.checked_sub(1).filter(|&previous| self.free[previous].end == range.start);
        match (previous, joins_next) {
            (Some(previous), true) => self.free[previous].end = self.free.remove(index).end,
            (Some(previous), false) => self.free[previous].end = range.end,
            (None, true) => self.free[index].start = range.start,
            (None, false) => self.free.insert(index, range)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{AddressRange, FreeError, FreeRanges};
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};
    use std::vec::Vec;

    fn range(start: u64, end: u64) -> AddressRange {
        AddressRange { start, end }
    }

    #[test]
    fn free_merges_adjacent_ranges() {
        let mut ranges = FreeRanges::<4>::new();
        ranges.free(range(0, 10)).unwrap();
        ranges.free(range(20, 30)).unwrap();
        ranges.free(range(10, 20)).unwrap();
        assert_eq!(ranges.as_slice(), [range(0, 30)]);
    }

    #[test]
    fn aligned_allocation_splits_a_range() {
        let mut ranges = FreeRanges::<4>::new();
        ranges.free(range(3, 30)).unwrap();
        assert_eq!(ranges.allocate(8, 8), Some(8));
        assert_eq!(ranges.as_slice(), [range(3, 8), range(16, 30)]);
        assert_eq!(ranges.allocate(15, 1), None);
        assert_eq!(ranges.allocate(0, 1), None);
    }

    #[test]
    fn double_free_is_rejected() {
        let mut ranges = FreeRanges::<4>::new();
        ranges.free(range(0, 10)).unwrap();
        assert_eq!(ranges.free(range(5, 6)), Err(FreeError::NotAllocated));
        assert_eq!(ranges.free(range(9, 12)), Err(FreeError::NotAllocated));
    }

    #[test]
    fn full_table_is_an_error_and_changes_nothing() {
        let mut ranges = FreeRanges::<1>::new();
        ranges.free(range(0, 10)).unwrap();
        assert_eq!(ranges.free(range(20, 30)), Err(FreeError::TableFull));
        assert_eq!(ranges.remove(range(4, 5)), Err(FreeError::TableFull));
        assert_eq!(ranges.as_slice(), [range(0, 10)]);
    }

    #[test]
    fn allocation_near_u64_max_does_not_overflow() {
        let mut ranges = FreeRanges::<4>::new();
        ranges.free(range(u64::MAX - 10, u64::MAX)).unwrap();
        assert_eq!(ranges.allocate(8, 1 << 40), None);
        assert_eq!(ranges.allocate(u64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn free_ranges_agree_with_a_bitmap(steps in vec((any::<u8>(), 1..40_u64, 0..3_u8, 0..4_u32), 0..60)) {
            let mut ranges = FreeRanges::<200>::new();
            let mut bitmap = [false; 256];
            for (start, size, step, align) in steps {
                let start = u64::from(start);
                let taken = range(start, (start + size).min(256));
                let index = |number: u64| usize::try_from(number).unwrap();
                let slots = index(taken.start)..index(taken.end);
                match step {
                    0 => {
                        let free = bitmap[slots.clone()].iter().all(|&free| !free);
                        prop_assert_eq!(ranges.free(taken).is_ok(), free);
                        if free { bitmap[slots].fill(true); }
                    }
                    1 => {
                        ranges.remove(taken).unwrap();
                        bitmap[slots].fill(false);
                    }
                    _ => {
                        let size = index(size);
                        let fits = |at: &usize| at + size <= 256 && bitmap[*at..at + size].iter().all(|&free| free);
                        let expected = (0..256).step_by(1 << align).find(fits);
                        prop_assert_eq!(ranges.allocate(size as u64, 1 << align), expected.map(|at| at as u64));
                        if let Some(at) = expected { bitmap[at..at + size].fill(false); }
                    }
                }
                let total = bitmap.iter().filter(|&&free| free).count() as u64;
                prop_assert_eq!(ranges.total(), total);
                let pieces: Vec<_> = ranges.as_slice().windows(2).map(|pair| pair[0].end < pair[1].start).collect();
                prop_assert_eq!(pieces.contains(&false), false);
            }
        }
    }
}
