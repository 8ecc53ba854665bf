//! Tests of the table: allocation of numbers, reserved descriptors, limits, and concurrent use.

extern crate std;

use super::{DescriptorTable, FileDescriptor, MAX_DESCRIPTORS};
use crate::Object;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hermit_interface::Errno;
use std::thread;

#[derive(Debug)]
struct Nothing;
impl Object for Nothing {}

type Table = DescriptorTable<parking_lot::RawMutex, Arc<dyn Object>>;

fn insert(table: &Table, object: Arc<dyn Object>) -> Result<FileDescriptor, Errno> {
    let descriptor = table.reserve()?;
    table.fill(descriptor, object);
    Ok(descriptor)
}

/// Opens another descriptor, of at least `min`, for the object of one.
fn duplicate(
    table: &Table,
    descriptor: FileDescriptor,
    min: FileDescriptor,
) -> Result<FileDescriptor, Errno> {
    table.open_from(table.get(descriptor)?, min)
}

#[test]
fn insert_and_duplicate_use_the_lowest_free_descriptor() {
    let table = Table::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for expected in 0..3 {
        assert_eq!(insert(&table, Arc::clone(&object)), Ok(expected));
    }
    assert!(table.remove(1).is_ok());
    assert_eq!(duplicate(&table, 2, 0), Ok(1));
    assert_eq!(duplicate(&table, 2, 0), Ok(3));
    assert_eq!(duplicate(&table, 2, 6), Ok(6));
    assert_eq!(duplicate(&table, 2, 2), Ok(4));
    assert_eq!(duplicate(&table, 2, MAX_DESCRIPTORS), Err(Errno::EINVAL));
    assert_eq!(duplicate(&table, 5, 0), Err(Errno::EBADF));
}

#[test]
fn closed_descriptor_is_ebadf() {
    let table = Table::default();
    assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.remove(usize::MAX).unwrap_err(), Errno::EBADF);
    insert(&table, Arc::new(Nothing)).unwrap();
    table.remove(0).unwrap();
    assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
    assert_eq!(duplicate(&table, 0, 0), Err(Errno::EBADF));
}

#[test]
fn remove_drops_the_tables_reference() {
    let table = Table::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    insert(&table, Arc::clone(&object)).unwrap();
    drop(table.remove(0).unwrap());
    assert_eq!(Arc::strong_count(&object), 1);
}

#[test]
#[cfg_attr(miri, ignore = "each look at a slot is a look at its whole chunk: minutes")]
fn insert_into_a_full_table_is_emfile() {
    let table = Table::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for _ in 0..MAX_DESCRIPTORS {
        insert(&table, Arc::clone(&object)).unwrap();
    }
    assert_eq!(insert(&table, object), Err(Errno::EMFILE));
}

#[test]
fn reserved_descriptor_is_allocated_but_not_open() {
    let table = Table::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    assert_eq!(table.reserve(), Ok(0));
    assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
    assert_eq!(insert(&table, Arc::clone(&object)), Ok(1));
    assert_eq!(table.reserve(), Ok(2));
    table.release(0);
    assert_eq!(insert(&table, Arc::clone(&object)), Ok(0));
    table.fill(2, Arc::clone(&object));
    assert!(table.get(2).is_ok() && table.remove(2).is_ok());
    assert_eq!(table.reserve(), Ok(2));
}

#[test]
#[cfg_attr(miri, ignore = "each look at a slot is a look at its whole chunk: minutes")]
fn reserved_descriptors_count_towards_the_limit() {
    let table = Table::default();
    for expected in 0..MAX_DESCRIPTORS {
        assert_eq!(table.reserve(), Ok(expected));
    }
    assert_eq!(insert(&table, Arc::new(Nothing)), Err(Errno::EMFILE));
    assert_eq!(table.reserve(), Err(Errno::EMFILE));
    table.release(MAX_DESCRIPTORS - 1);
    assert_eq!(insert(&table, Arc::new(Nothing)), Ok(MAX_DESCRIPTORS - 1));
}

#[test]
#[cfg_attr(miri, ignore = "each look at a slot is a look at its whole chunk: minutes")]
fn only_free_descriptor_is_found_at_any_index() {
    let table = Table::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for _ in 0..MAX_DESCRIPTORS {
        insert(&table, Arc::clone(&object)).unwrap();
    }
    for free in 0..MAX_DESCRIPTORS {
        table.remove(free).unwrap();
        if free + 1 < MAX_DESCRIPTORS {
            assert_eq!(duplicate(&table, MAX_DESCRIPTORS - 1, free + 1), Err(Errno::EMFILE));
        }
        let min = free.saturating_sub(free % 100);
        assert_eq!(duplicate(&table, usize::from(free == 0), min), Ok(free));
    }
}

#[test]
fn table_has_only_the_chunks_that_it_needs() {
    // A chunk that does not follow the others.
    let chunk = MAX_DESCRIPTORS / 8;
    let table = Table::default();
    insert(&table, Arc::new(Nothing)).unwrap();
    assert_eq!(duplicate(&table, 0, chunk + 5), Ok(chunk + 5));
    assert!(table.slots.get(63).is_some() && table.slots.get(64).is_none());
    assert!(table.slots.get(chunk).is_some() && table.slots.get(2 * chunk).is_none());
    assert_eq!(duplicate(&table, 0, MAX_DESCRIPTORS - 1), Ok(MAX_DESCRIPTORS - 1));
    assert_eq!(duplicate(&table, 0, MAX_DESCRIPTORS - 1), Err(Errno::EMFILE));
    assert_eq!(duplicate(&table, 0, chunk + 5), Ok(chunk + 6));
    assert_eq!(table.get(chunk + 4).unwrap_err(), Errno::EBADF);
    assert_eq!(table.get(MAX_DESCRIPTORS).unwrap_err(), Errno::EBADF);
    assert_eq!(table.reserve(), Ok(1));
}

#[test]
fn threads_reserve_each_descriptor_once() {
    const PER_THREAD: usize = 200;
    let table = Table::default();
    let mut reserved: Vec<FileDescriptor> = thread::scope(|scope| {
        let reserve = || (0..PER_THREAD).map(|_| table.reserve().unwrap()).collect::<Vec<_>>();
        let threads = [scope.spawn(reserve), scope.spawn(reserve)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    reserved.sort_unstable();
    assert_eq!(reserved, (0..2 * PER_THREAD).collect::<Vec<_>>());
}

#[test]
fn next_open_descriptor_is_found_in_any_chunk() {
    let table = Table::default();
    let first = table.reserve().unwrap();
    assert_eq!(table.next_open(0), None, "it is not open yet");
    table.fill(first, Arc::new(Nothing));
    let last = duplicate(&table, first, if cfg!(miri) { 100 } else { 40_000 }).unwrap();
    assert_eq!([0, 1, last + 1].map(|from| table.next_open(from)), [Some(first), Some(last), None]);
}

#[test]
fn descriptors_are_of_one_thread_at_a_time_around_the_end_of_the_first_ones() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 500 };
    // Together more than the first ones.
    const OPEN: usize = 30;
    let table: DescriptorTable<parking_lot::RawMutex, usize> = DescriptorTable::default();
    let open_and_close = |thread: usize| {
        for round in 0..ROUNDS {
            let values = (0..OPEN).map(|index| (thread * ROUNDS + round) * OPEN + index);
            let open: Vec<_> = values.map(|value| (table.reserve().unwrap(), value)).collect();
            for (descriptor, value) in &open {
                assert_eq!(table.get(*descriptor), Err(Errno::EBADF), "another thread has it");
                table.fill(*descriptor, *value);
            }
            for (descriptor, value) in open {
                assert_eq!(table.remove(descriptor), Ok(value));
            }
        }
    };
    thread::scope(|scope| (0..3).for_each(|thread| drop(scope.spawn(move || open_and_close(thread)))));
    assert_eq!(table.reserve(), Ok(0));
    assert_eq!(table.reserve_from(63), Ok(63));
    assert_eq!(table.reserve_from(63), Ok(64));
}
