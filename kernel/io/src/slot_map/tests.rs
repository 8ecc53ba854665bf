//! Property test: compares the table with a map.

extern crate std;

use core::ptr;
use std::collections::HashMap;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{CHUNKS, FIRST_CHUNK, SlotMap, chunk_size, position};

/// Adds a value as the kernel does; returns its number.
fn insert<T>(table: &mut SlotMap<T>, mut value: T) -> usize {
    loop {
        match table.insert(value) {
            Ok(number) => return number,
            Err(refused) => value = refused,
        }
        let chunk = table.plan().unwrap().allocate().unwrap();
        assert!(table.grow(chunk).is_none());
    }
}

#[test]
fn positions_fill_each_chunk_before_the_next() {
    let mut number = 0;
    for chunk in 0..6 {
        for index in 0..chunk_size(chunk) {
            assert_eq!(position(number), (chunk, index));
            number += 1;
        }
    }
    assert!(position(usize::MAX).0 >= CHUNKS);
}

#[test]
fn values_do_not_move_when_the_table_grows() {
    let mut table = SlotMap::new();
    let first = insert(&mut table, 0);
    let address = ptr::from_ref(table.get(first).unwrap());
    (1..20 * FIRST_CHUNK).for_each(|value| assert_eq!(insert(&mut table, value), value));
    assert!(ptr::eq(table.get(first).unwrap(), address));
}

#[test]
fn table_without_room_refuses_a_value_and_does_not_allocate() {
    let mut table = SlotMap::new();
    assert_eq!(table.insert(1), Err(1));
    let (first, second) = (table.plan().unwrap(), table.plan().unwrap());
    // Two threads have planned the same chunk.
    assert!(table.grow(first.allocate().unwrap()).is_none());
    assert_eq!((0..).take_while(|&value| table.insert(value).is_ok()).count(), FIRST_CHUNK);
    // The second chunk is larger.
    assert!(table.grow(second.allocate().unwrap()).is_some());
    assert_eq!(table.insert(1), Err(1));
}

proptest! {
    #[test]
    fn table_agrees_with_a_map(steps in vec((0..3_u8, 0..200_usize), 0..if cfg!(miri) { 60 } else { 600 })) {
        let mut table = SlotMap::new();
        let mut model = HashMap::new();
        for (value, (step, index)) in steps.into_iter().enumerate() {
            if step < 2 {
                prop_assert!(model.insert(insert(&mut table, value), value).is_none());
            } else {
                let numbers: Vec<usize> = model.keys().copied().chain([index]).collect();
                let number = numbers[index % numbers.len()];
                prop_assert_eq!(table.remove(number), model.remove(&number));
            }
            prop_assert_eq!(table.get(index), model.get(&index));
        }
        prop_assert!(model.iter().all(|(&number, value)| table.get(number) == Some(value)));
    }
}
