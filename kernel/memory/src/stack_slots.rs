//! Virtual addresses of thread stacks.
//!
//! Each slot size, a power of two, has a region of 512 GiB of virtual addresses, divided into slots of that size. So
//! the slot of an address follows from the address alone. The first page of a slot is never mapped: it is the guard
//! page below the stack.

use hermit_interface::address::PAGE_SIZE;

/// Binary logarithm of the smallest slot size in bytes.
const MIN_SHIFT: u32 = 14;
/// Binary logarithm of the largest slot size in bytes.
const MAX_SHIFT: u32 = 36;
/// Binary logarithm of the size of a region in bytes.
const REGION_SHIFT: u32 = 39;

/// Number of slot sizes.
pub const SIZES: usize = (MAX_SHIFT - MIN_SHIFT + 1) as usize;

/// Total size of all regions in bytes.
pub const TOTAL: u64 = (SIZES as u64) << REGION_SHIFT;

/// Alignment of the first region.
pub const ALIGN: u64 = 1 << REGION_SHIFT;

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSlot {
    /// Index of the slot size.
    pub size: usize,
    /// Index of the slot in the region of its size.
    pub index: u64,
}

/// Addresses of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// Start of the guard page.
    pub guard: u64,
    /// Lowest address of the stack.
    pub bottom: u64,
    /// First address above the stack.
    pub top: u64,
}

/// Index of the smallest slot size for a stack of `bytes` bytes and its guard page; `None` if no size is large enough.
#[must_use]
pub fn size_for(bytes: u64) -> Option<usize> {
    let total = bytes.checked_next_multiple_of(PAGE_SIZE)?.checked_add(PAGE_SIZE)?;
    let exponent = total.checked_next_power_of_two()?.trailing_zeros().max(MIN_SHIFT);
    (exponent <= MAX_SHIFT).then_some((exponent - MIN_SHIFT) as usize)
}

/// Size in bytes of a stack in a slot, by the index of the slot size.
#[must_use]
pub const fn stack_size(size: usize) -> u64 {
    (1 << (MIN_SHIFT as usize + size)) - PAGE_SIZE
}

impl StackSlot {
    /// Number of slots of a size.
    #[must_use]
    pub const fn count(size: usize) -> u64 {
        1 << (REGION_SHIFT as usize - MIN_SHIFT as usize - size)
    }

    /// The slot that contains an address, given as offset from the first region; `None` behind the last region.
    #[must_use]
    pub fn at(offset: u64) -> Option<Self> {
        let size = usize::try_from(offset >> REGION_SHIFT).ok().filter(|&size| size < SIZES)?;
        Some(Self { size, index: (offset % (1 << REGION_SHIFT)) >> (MIN_SHIFT as usize + size) })
    }

    /// The addresses of the slot, if the first region starts at `start`.
    #[must_use]
    pub const fn bounds(self, start: u64) -> StackBounds {
        let shift = MIN_SHIFT as usize + self.size;
        let guard = start + ((self.size as u64) << REGION_SHIFT) + (self.index << shift);
        StackBounds { guard, bottom: guard + PAGE_SIZE, top: guard + (1 << shift) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, PAGE_SIZE, SIZES, StackSlot, TOTAL, size_for, stack_size};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    const START: u64 = 150 * ALIGN;

    #[test]
    fn size_for_rounds_up() {
        assert_eq!(size_for(1), Some(0));
        assert_eq!(size_for(stack_size(0)), Some(0));
        assert_eq!(size_for(stack_size(0) + 1), Some(1));
        assert_eq!(size_for(u64::MAX), None);
        assert_eq!(size_for(stack_size(SIZES - 1) + 1), None);
    }

    proptest! {
        #[test]
        fn at_returns_the_slot_that_contains_an_address(offset in 0..TOTAL) {
            let slot = StackSlot::at(offset).unwrap();
            let bounds = slot.bounds(START);
            prop_assert!(bounds.guard <= START + offset && START + offset < bounds.top);
            prop_assert!(slot.index < StackSlot::count(slot.size));
            prop_assert_eq!(bounds.top - bounds.bottom, stack_size(slot.size));
        }

        #[test]
        fn slot_fits_the_stack_with_bounded_waste(bytes in 1..1_u64 << 34) {
            let size = size_for(bytes).unwrap();
            prop_assert!(stack_size(size) >= bytes && stack_size(size) <= 2 * bytes.max(4 * PAGE_SIZE) + PAGE_SIZE);
        }

        #[test]
        fn at_is_none_outside_of_the_regions(offset in TOTAL..u64::MAX) {
            prop_assert_eq!(StackSlot::at(offset), None);
        }
    }
}
