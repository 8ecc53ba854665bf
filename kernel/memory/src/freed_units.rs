//! Freed memory that may still be resident on the host.
//!
//! A hypervisor allocates a page of the guest's memory at its first use, and keeps it when the guest frees
//! it. To return such memory, the guest must know which free memory has been used. Free memory that was never
//! used need not be returned. [`FreedUnits`] has a bit for each [`UNIT`] of physical memory in which
//! something was freed. Allocations do not clear bits, so they cost nothing. Instead the caller checks that a
//! unit is still free before it returns the unit.
//!
//! Memory that is soon allocated again should not be returned each time. So there are two bitmaps. Frees set
//! bits in the recent bitmap. Once per period, [`FreedUnits::age`] moves these bits to the aged bitmap, which
//! [`FreedUnits::next`] searches. So a unit is returned one period after the last free in it at the earliest.

use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::machine::RETURN_UNIT;

use crate::frames::Words;

/// Size of a unit in bytes.
pub const UNIT: u64 = RETURN_UNIT;

/// Minimum number of freed bytes for which a period is worth its cost.
pub const MIN_FREED: u64 = 1 << 20;

/// Size of a word in bytes, and in bits.
const WORD: u64 = 8;
const BITS: u64 = 64;

/// Bitmaps of the units in which memory was freed. They lie in allocated memory, which [`Words`] accesses.
#[derive(Debug)]
pub struct FreedUnits {
    /// Address of the recent bitmap.
    recent: u64,
    /// Address of the aged bitmap.
    aged: u64,
    /// Number of words of a bitmap.
    words: u64,
    /// Bytes that were freed since the last [`Self::age`].
    freed: u64,
}

impl FreedUnits {
    /// Size in bytes, in whole pages, of the bitmaps for physical memory that ends at `end`.
    #[must_use]
    pub const fn size(end: u64) -> u64 {
        (2 * WORD * Self::words(end)).next_multiple_of(PAGE_SIZE)
    }

    const fn words(end: u64) -> u64 {
        end.div_ceil(UNIT).div_ceil(BITS)
    }

    /// Creates empty bitmaps for physical memory that ends at `end`. They are at `start`, where the caller
    /// provides [`Self::size`] bytes.
    #[must_use]
    pub fn new(memory: &mut impl Words, start: u64, end: u64) -> Self {
        let words = Self::words(end);
        for word in 0..2 * words {
            memory.write(start + word * WORD, 0);
        }
        Self { recent: start, aged: start + words * WORD, words, freed: 0 }
    }

    /// The memory in which the bitmaps are: [`Self::size`] bytes.
    #[must_use]
    pub const fn memory(&self) -> AddressRange {
        let size = (2 * WORD * self.words).next_multiple_of(PAGE_SIZE);
        AddressRange { start: self.recent, end: self.recent + size }
    }

    /// Marks the units of a range as freed.
    pub fn mark(&mut self, memory: &mut impl Words, range: AddressRange) {
        self.freed = self.freed.saturating_add(range.size());
        let (first, last) = (range.start / UNIT, (range.end - 1) / UNIT);
        for word in first / BITS..=(last / BITS).min(self.words - 1) {
            let low = first.saturating_sub(word * BITS);
            let high = (last - word * BITS).min(BITS - 1);
            let bits = u64::MAX << low & u64::MAX >> (BITS - 1 - high);
            let address = self.recent + word * WORD;
            let old = memory.read(address);
            memory.write(address, old | bits);
        }
    }

    /// Returns true if enough was freed since the last [`Self::age`] to make a period worth its cost.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.freed >= MIN_FREED
    }

    /// Begins a period. From now on [`Self::next`] finds the units that were freed in the previous period.
    /// Returns false if there are no such units.
    pub fn age(&mut self, memory: &mut impl Words) -> bool {
        let mut is_any = false;
        for word in 0..self.words {
            let recent = memory.read(self.recent + word * WORD);
            memory.write(self.recent + word * WORD, 0);
            memory.write(self.aged + word * WORD, recent);
            is_any |= recent != 0;
        }
        self.freed = 0;
        is_any
    }

    /// Address of the lowest unit at `from` or above in which memory was freed in the previous period, but
    /// not since then.
    #[must_use]
    pub fn next(&self, memory: &impl Words, from: u64) -> Option<u64> {
        let first = from.div_ceil(UNIT);
        for word in first / BITS..self.words {
            let above = if word == first / BITS { u64::MAX << (first % BITS) } else { u64::MAX };
            let aged = memory.read(self.aged + word * WORD);
            let found = aged & !memory.read(self.recent + word * WORD) & above;
            if found != 0 {
                return Some((word * BITS + u64::from(found.trailing_zeros())) * UNIT);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{BITS, FreedUnits, MIN_FREED, UNIT, WORD};
    use crate::frames::Words;
    use hermit_interface::address::{AddressRange, PAGE_SIZE};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    /// Words at address 4096, which are not zero.
    struct Memory(Vec<u64>);

    impl Memory {
        fn index(address: u64) -> usize {
            usize::try_from((address - PAGE_SIZE) / WORD).unwrap()
        }
    }

    impl Words for Memory {
        fn read(&self, address: u64) -> u64 {
            self.0[Self::index(address)]
        }

        fn write(&mut self, address: u64, value: u64) {
            self.0[Self::index(address)] = value;
        }
    }

    /// Bitmaps for memory of 200 units.
    fn bitmaps() -> (FreedUnits, Memory) {
        let size = usize::try_from(FreedUnits::size(200 * UNIT) / WORD).unwrap();
        let mut memory = Memory(std::vec![u64::MAX; size]);
        let units = FreedUnits::new(&mut memory, PAGE_SIZE, 200 * UNIT);
        (units, memory)
    }

    /// Numbers of the units that were freed in the previous period.
    fn aged(units: &FreedUnits, memory: &Memory) -> Vec<u64> {
        let next = |from| units.next(memory, from);
        std::iter::successors(next(0), |unit| next(unit + UNIT)).map(|unit| unit / UNIT).collect()
    }

    #[test]
    fn bitmaps_take_whole_pages() {
        assert_eq!(FreedUnits::size(1), PAGE_SIZE);
        assert_eq!(FreedUnits::size(UNIT * BITS * 256), PAGE_SIZE);
        assert_eq!(FreedUnits::size(UNIT * BITS * 256 + 1), 2 * PAGE_SIZE);
        assert_eq!(bitmaps().0.memory(), AddressRange { start: PAGE_SIZE, end: 2 * PAGE_SIZE });
    }

    #[test]
    fn unit_is_found_a_period_after_its_last_free() {
        let (mut units, mut memory) = bitmaps();
        let range =
            |first, last| AddressRange { start: first * UNIT + PAGE_SIZE, end: last * UNIT + PAGE_SIZE };
        units.mark(&mut memory, range(3, 5));
        assert_eq!(aged(&units, &memory), []);
        assert!(units.age(&mut memory));
        units.mark(&mut memory, range(4, 5));
        assert_eq!(aged(&units, &memory), [3]);
        assert!(units.age(&mut memory));
        assert_eq!(aged(&units, &memory), [4, 5]);
        assert!(!units.age(&mut memory));
        assert_eq!(aged(&units, &memory), []);
    }

    #[test]
    fn period_is_due_when_enough_was_freed() {
        let (mut units, mut memory) = bitmaps();
        units.mark(&mut memory, AddressRange { start: 0, end: MIN_FREED - PAGE_SIZE });
        assert!(!units.is_due());
        units.mark(&mut memory, AddressRange { start: 0, end: PAGE_SIZE });
        assert!(units.is_due());
        units.age(&mut memory);
        assert!(!units.is_due());
    }

    proptest! {
        #[test]
        fn marked_units_are_those_of_a_set(ranges in vec((0..199_u64, 1..190_u64), 0..if cfg!(miri) { 3 } else { 20 })) {
            let (mut units, mut memory) = bitmaps();
            let mut expected = BTreeSet::new();
            for (first, count) in ranges {
                let end = (first + count).min(200);
                units.mark(&mut memory, AddressRange { start: first * UNIT, end: end * UNIT });
                expected.extend(first..end);
            }
            prop_assert_eq!(units.age(&mut memory), !expected.is_empty());
            prop_assert!(aged(&units, &memory).into_iter().eq(expected));
        }
    }
}
