//! Tests of the table.

use super::{DescriptorTable, FileDescriptor, MAX_DESCRIPTORS, ReserveError};
use crate::Object;
use alloc::sync::Arc;
use hermit_interface::Errno;

#[derive(Debug)]
struct Nothing;
impl Object for Nothing {}

/// A table that allocates missing chunks itself.
#[derive(Default)]
struct TestTable(DescriptorTable);

impl TestTable {
    fn grow<R>(
        &mut self,
        reserve: impl Fn(&mut DescriptorTable) -> Result<R, ReserveError>,
    ) -> Result<R, Errno> {
        loop {
            match reserve(&mut self.0) {
                Ok(reserved) => return Ok(reserved),
                Err(ReserveError::Errno(errno)) => return Err(errno),
                Err(ReserveError::Missing(missing)) => {
                    assert!(self.0.add(missing.allocate().unwrap()).is_none(), "the chunk was missing");
                }
            }
        }
    }

    fn reserve(&mut self) -> Result<FileDescriptor, Errno> {
        self.grow(DescriptorTable::reserve)
    }

    fn duplicate(
        &mut self,
        descriptor: FileDescriptor,
        min: FileDescriptor,
    ) -> Result<FileDescriptor, Errno> {
        self.grow(|table| table.duplicate(descriptor, min))
    }

    fn insert(&mut self, object: Arc<dyn Object>) -> Result<FileDescriptor, Errno> {
        let descriptor = self.reserve()?;
        self.0.fill(descriptor, object);
        Ok(descriptor)
    }

    fn get(&self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        self.0.get(descriptor)
    }

    fn remove(&mut self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        self.0.remove(descriptor)
    }

    /// Number of descriptors for which there is memory.
    fn capacity(&self) -> usize {
        self.0.slots.iter().map(|slots| slots.capacity()).sum()
    }
}

#[test]
fn insert_and_duplicate_use_the_lowest_free_descriptor() {
    let mut table = TestTable::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for expected in 0..3 {
        assert_eq!(table.insert(Arc::clone(&object)), Ok(expected));
    }
    assert!(table.remove(1).is_ok());
    assert_eq!(table.duplicate(2, 0), Ok(1));
    assert_eq!(table.duplicate(2, 0), Ok(3));
    assert_eq!(table.duplicate(2, 6), Ok(6));
    assert_eq!(table.duplicate(2, 2), Ok(4));
    assert_eq!(table.duplicate(2, MAX_DESCRIPTORS), Err(Errno::EINVAL));
    assert_eq!(table.duplicate(5, 0), Err(Errno::EBADF));
}

#[test]
fn closed_descriptor_is_ebadf() {
    let mut table = TestTable::default();
    assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.remove(usize::MAX).unwrap_err(), Errno::EBADF);
    table.insert(Arc::new(Nothing)).unwrap();
    table.remove(0).unwrap();
    assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.duplicate(0, 0), Err(Errno::EBADF));
}

#[test]
fn remove_drops_the_tables_reference() {
    let mut table = TestTable::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    table.insert(Arc::clone(&object)).unwrap();
    drop(table.remove(0).unwrap());
    assert_eq!(Arc::strong_count(&object), 1);
}

#[test]
#[cfg_attr(miri, ignore = "65,536 descriptors take minutes")]
fn insert_into_a_full_table_is_emfile() {
    let mut table = TestTable::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for _ in 0..MAX_DESCRIPTORS {
        table.insert(Arc::clone(&object)).unwrap();
    }
    assert_eq!(table.insert(object), Err(Errno::EMFILE));
}

#[test]
fn reserved_descriptor_is_allocated_but_not_open() {
    let mut table = TestTable::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    assert_eq!(table.reserve(), Ok(0));
    assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
    assert_eq!(table.insert(Arc::clone(&object)), Ok(1));
    assert_eq!(table.reserve(), Ok(2));
    table.0.release(0);
    assert_eq!(table.insert(Arc::clone(&object)), Ok(0));
    table.0.fill(2, Arc::clone(&object));
    assert!(table.get(2).is_ok() && table.remove(2).is_ok());
    assert_eq!(table.reserve(), Ok(2));
}

#[test]
fn reserved_descriptors_count_towards_the_limit() {
    let mut table = TestTable::default();
    for expected in 0..MAX_DESCRIPTORS {
        assert_eq!(table.reserve(), Ok(expected));
    }
    assert_eq!(table.insert(Arc::new(Nothing)), Err(Errno::EMFILE));
    assert_eq!(table.reserve(), Err(Errno::EMFILE));
    table.0.release(MAX_DESCRIPTORS - 1);
    assert_eq!(table.insert(Arc::new(Nothing)), Ok(MAX_DESCRIPTORS - 1));
}

#[test]
#[cfg_attr(miri, ignore = "65,536 descriptors take minutes")]
fn only_free_descriptor_is_found_at_any_index() {
    let mut table = TestTable::default();
    let object: Arc<dyn Object> = Arc::new(Nothing);
    for _ in 0..MAX_DESCRIPTORS {
        table.insert(Arc::clone(&object)).unwrap();
    }
    for free in 0..MAX_DESCRIPTORS {
        table.remove(free).unwrap();
        if free + 1 < MAX_DESCRIPTORS {
            assert_eq!(table.duplicate(MAX_DESCRIPTORS - 1, free + 1), Err(Errno::EMFILE));
        }
        let min = free.saturating_sub(free % 100);
        assert_eq!(table.duplicate(usize::from(free == 0), min), Ok(free));
    }
}

#[test]
fn table_grows_by_chunks_that_do_not_move() {
    let mut table = TestTable::default();
    assert_eq!(table.capacity(), 0);
    assert!(matches!(table.0.reserve(), Err(ReserveError::Missing(_))));
    table.insert(Arc::new(Nothing)).unwrap();
    assert_eq!(table.capacity(), 64);
    let first = table.0.slots[0].as_ptr();
    assert_eq!(table.duplicate(0, 5_000), Ok(5_000));
    assert_eq!(table.capacity(), 64 + 4096);
    assert_eq!(table.duplicate(0, MAX_DESCRIPTORS - 1), Ok(MAX_DESCRIPTORS - 1));
    assert_eq!(table.duplicate(0, MAX_DESCRIPTORS - 1), Err(Errno::EMFILE));
    assert_eq!(table.duplicate(0, 5_000), Ok(5_001));
    assert_eq!(table.get(4_999).unwrap_err(), Errno::EBADF);
    assert_eq!(table.get(MAX_DESCRIPTORS).unwrap_err(), Errno::EBADF);
    assert_eq!(table.reserve(), Ok(1));
    assert_eq!(table.0.slots[0].as_ptr(), first);
}

#[test]
fn chunk_that_was_added_meanwhile_is_returned() {
    let mut table = DescriptorTable::new();
    let Err(ReserveError::Missing(missing)) = table.reserve() else { panic!("the table is empty") };
    let (one, other) = (missing.allocate().unwrap(), missing.allocate().unwrap());
    assert!(table.add(one).is_none());
    assert_eq!(table.reserve(), Ok(0));
    table.fill(0, Arc::new(Nothing));
    assert!(table.add(other).is_some());
    assert!(table.get(0).is_ok());
    assert_eq!(table.reserve(), Ok(1));
}
