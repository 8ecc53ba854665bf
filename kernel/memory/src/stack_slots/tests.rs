//! Slots of random sizes in regions of random sizes.

extern crate std;

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::vec::Vec;

use super::{PAGE_SIZE, SIZES, SlotTable, StackSlot, is_size_for, size_for, slot_size, stack_size};

pub(super) const START: u64 = 150 << 39;

pub(super) const GIB: u64 = 1 << 30;

pub(super) fn table(size: u64) -> SlotTable {
    let table = SlotTable::new();
    table.init(START, size);
    table
}

/// Index of the slot size for stacks of 1 MiB, std's default.
pub(super) fn default_size() -> usize {
    size_for(1 << 20).unwrap()
}

#[test]
fn size_for_rounds_up() {
    assert_eq!(size_for(1), Some(0));
    assert_eq!(size_for(stack_size(0)), Some(0));
    assert_eq!(size_for(stack_size(0) + 1), Some(1));
    assert_eq!(size_for(u64::MAX), None);
    assert_eq!(size_for(stack_size(SIZES - 1) + 1), None);
    let bounds = |size| [stack_size(size), stack_size(size) + 1];
    let expected = |size| [Some(size), (size + 1 < SIZES).then_some(size + 1)];
    for size in 0..SIZES {
        assert_eq!(bounds(size).map(size_for), expected(size));
        assert_eq!(bounds(size).map(|bytes| is_size_for(size, bytes)), [true, false]);
    }
}

/// The kernel's region on a machine with 4 GiB of memory.
#[test]
fn region_of_256_gib_has_100_000_default_stacks() {
    let table = table(256 * GIB);
    let first = table.create(default_size()).unwrap();
    let count = if cfg!(miri) { 1_000 } else { 100_000 };
    assert!((1..count).all(|_| table.create(default_size()).is_some()));
    assert!(table.create(0).is_some(), "other sizes have addresses, too");
    assert!(table.create(size_for(8 << 20).unwrap()).is_some());
    assert_eq!(table.find(START).unwrap(), table.bounds(first));
}

#[test]
fn addresses_without_a_slot_are_not_found() {
    assert_eq!(SlotTable::new().find(START), None, "no region");
    let table = table(GIB);
    assert_eq!(table.find(START), None);
    let bounds = table.bounds(table.create(0).unwrap());
    assert_eq!(table.find(bounds.guard), Some(bounds));
    assert_eq!(table.find(bounds.top - 1), Some(bounds));
    for address in [0, START - 1, bounds.top, START + GIB, u64::MAX] {
        assert_eq!(table.find(address), None, "{address:#x}");
    }
}

#[test]
fn slot_larger_than_the_region_is_refused() {
    let table = table(GIB);
    assert_eq!(table.create(size_for(GIB).unwrap()), None);
    assert!(table.create(size_for(GIB / 2).unwrap()).is_some());
}

proptest! {
    #[test]
    fn slots_are_disjoint_and_found(region in 1..64 * GIB, sizes in vec(0..SIZES, 1..60)) {
        let table = table(region);
        let slots: Vec<StackSlot> = sizes.iter().filter_map(|&size| table.create(size)).collect();
        for (number, &slot) in slots.iter().enumerate() {
            let bounds = table.bounds(slot);
            prop_assert!(START <= bounds.guard && bounds.top <= START + region);
            prop_assert!((bounds.guard - START).is_multiple_of(slot_size(slot.size)));
            prop_assert_eq!(bounds.top - bounds.bottom, stack_size(slot.size));
            for address in [bounds.guard, bounds.bottom, bounds.top - 1] {
                prop_assert_eq!(table.find(address), Some(bounds));
            }
            for &other in &slots[..number] {
                let other = table.bounds(other);
                prop_assert!(other.top <= bounds.guard || bounds.top <= other.guard);
            }
        }
    }

    #[test]
    fn slot_fits_the_stack_with_bounded_waste(bytes in 1..1_u64 << 34) {
        let size = size_for(bytes).unwrap();
        prop_assert!((0..SIZES).all(|other| is_size_for(other, bytes) == (other == size)));
        prop_assert!(stack_size(size) >= bytes && stack_size(size) <= 2 * bytes.max(4 * PAGE_SIZE) + PAGE_SIZE);
    }
}
