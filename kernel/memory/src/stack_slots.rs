//! Where the stacks of threads lie.
//!
//! Addresses cost nothing: each size, rounded up to a power of two, has 512 GiB of them, divided into slots of that size.
//! So an address says by itself in which slot it is. The first page of a slot is never mapped: it is the guard below the
//! stack.

use hermit_interface::address::PAGE_SIZE;

/// Binary logarithm of the smallest slot's size.
const SMALLEST: u32 = 14;
/// Binary logarithm of the largest slot's size.
const LARGEST: u32 = 36;
/// Binary logarithm of the addresses that each size has.
const REGION: u32 = 39;

/// How many sizes there are.
pub const SIZES: usize = (LARGEST - SMALLEST + 1) as usize;

/// The addresses that all slots take.
pub const TOTAL: u64 = (SIZES as u64) << REGION;

/// What the start of all slots must be a multiple of.
pub const ALIGN: u64 = 1 << REGION;

/// The place of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSlot {
    /// Which size it has.
    pub size: usize,
    /// Which of that size it is.
    pub index: u64,
}

/// Where the guard of a slot starts, its stack, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// Start of the page that is never mapped.
    pub guard: u64,
    /// Lowest address of the stack.
    pub bottom: u64,
    /// The address just above the stack.
    pub top: u64,
}

/// The number of the smallest size that has room for a stack of so many bytes and its guard; `None` if that is too much.
#[must_use]
pub fn size_for(bytes: u64) -> Option<usize> {
    let total = bytes.checked_next_multiple_of(PAGE_SIZE)?.checked_add(PAGE_SIZE)?;
    let exponent = total.checked_next_power_of_two()?.trailing_zeros().max(SMALLEST);
    (exponent <= LARGEST).then_some((exponent - SMALLEST) as usize)
}

/// The bytes of a stack in a slot of this size.
#[must_use]
pub const fn stack_size(size: usize) -> u64 {
    (1 << (SMALLEST as usize + size)) - PAGE_SIZE
}

impl StackSlot {
    /// How many slots of a size there are.
    #[must_use]
    pub const fn count(size: usize) -> u64 {
        1 << (REGION as usize - SMALLEST as usize - size)
    }

    /// The slot to which an address belongs that lies so far behind the start of all slots.
    #[must_use]
    pub fn at(offset: u64) -> Option<Self> {
        let size = usize::try_from(offset >> REGION).ok().filter(|&size| size < SIZES)?;
        Some(Self { size, index: (offset % (1 << REGION)) >> (SMALLEST as usize + size) })
    }

    /// Where it lies, if all slots start at `start`.
    #[must_use]
    pub const fn bounds(self, start: u64) -> StackBounds {
        let shift = SMALLEST as usize + self.size;
        let guard = start + ((self.size as u64) << REGION) + (self.index << shift);
        StackBounds { guard, bottom: guard + PAGE_SIZE, top: guard + (1 << shift) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGN, PAGE_SIZE, SIZES, StackSlot, TOTAL, size_for, stack_size};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    const START: u64 = 150 * ALIGN;

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(size_for(1), Some(0));
        assert_eq!(size_for(stack_size(0)), Some(0));
        assert_eq!(size_for(stack_size(0) + 1), Some(1));
        assert_eq!(size_for(u64::MAX), None);
        assert_eq!(size_for(stack_size(SIZES - 1) + 1), None);
    }

    proptest! {
        #[test]
        fn an_address_knows_its_slot(offset in 0..TOTAL) {
            let slot = StackSlot::at(offset).unwrap();
            let bounds = slot.bounds(START);
            prop_assert!(bounds.guard <= START + offset && START + offset < bounds.top);
            prop_assert!(slot.index < StackSlot::count(slot.size));
            prop_assert_eq!(bounds.top - bounds.bottom, stack_size(slot.size));
        }

        #[test]
        fn a_slot_has_room(bytes in 1..1_u64 << 34) {
            let size = size_for(bytes).unwrap();
            prop_assert!(stack_size(size) >= bytes && stack_size(size) <= 2 * bytes.max(4 * PAGE_SIZE) + PAGE_SIZE);
        }

        #[test]
        fn what_is_outside_is_nobodys(offset in TOTAL..u64::MAX) {
            prop_assert_eq!(StackSlot::at(offset), None);
        }
    }
}
