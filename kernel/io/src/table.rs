//! The table of open file descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::Object;

/// A file descriptor.
pub type FileDescriptor = usize;

/// Maximum number of open descriptors, as Linux's default `RLIMIT_NOFILE`.
const MAX_DESCRIPTORS: usize = 1024;

/// The open and reserved descriptors.
#[derive(Debug, Default)]
pub struct DescriptorTable {
    slots: Vec<Option<Arc<dyn Object>>>,
    allocated: Bitmap,
}

impl DescriptorTable {
    /// Creates a table without open descriptors.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), allocated: Bitmap::new() }
    }

    /// Opens the lowest free descriptor for `object`.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all descriptors are open, `ENOMEM`.
    pub fn insert(&mut self, object: Arc<dyn Object>) -> Result<FileDescriptor, Errno> {
        self.insert_from(0, object)
    }

    /// Opens the lowest free descriptor of at least `min`.
    fn insert_from(&mut self, min: FileDescriptor, object: Arc<dyn Object>) -> Result<FileDescriptor, Errno> {
        let descriptor = self.reserve_from(min)?;
        self.fill(descriptor, object);
        Ok(descriptor)
    }

    /// Reserves the lowest free descriptor, for an object that is created later. The descriptor is allocated but not
    /// open until [`Self::fill`] opens it or [`Self::release`] frees it.
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`].
    pub fn reserve(&mut self) -> Result<FileDescriptor, Errno> {
        self.reserve_from(0)
    }

    fn reserve_from(&mut self, min: FileDescriptor) -> Result<FileDescriptor, Errno> {
        let free = self.allocated.lowest_free(min).ok_or(Errno::EMFILE)?;
        let missing = (free + 1).saturating_sub(self.slots.len());
        self.slots.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        self.slots.resize(self.slots.len() + missing, None);
        self.allocated.set(free, true);
        Ok(free)
    }

    /// Opens a reserved descriptor.
    pub fn fill(&mut self, descriptor: FileDescriptor, object: Arc<dyn Object>) {
        if let Some(slot) = self.slots.get_mut(descriptor) {
            *slot = Some(object);
        }
    }

    /// Frees a reserved descriptor.
    pub fn release(&mut self, descriptor: FileDescriptor) {
        self.allocated.set(descriptor, false);
    }

    /// The object behind a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn get(&self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        self.slots.get(descriptor).and_then(Clone::clone).ok_or(Errno::EBADF)
    }

    /// Opens another descriptor for the same object: the lowest free one of at least `min`.
    ///
    /// # Errors
    ///
    /// As [`Self::get`] and [`Self::insert`], and `EINVAL` if `min` is not below the limit.
    pub fn duplicate(
        &mut self,
        descriptor: FileDescriptor,
        min: FileDescriptor,
    ) -> Result<FileDescriptor, Errno> {
        let object = self.get(descriptor)?;
        if min >= MAX_DESCRIPTORS {
            return Err(Errno::EINVAL);
        }
        self.insert_from(min, object)
    }

    /// Closes a descriptor and returns its object, which other references may keep alive.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn remove(&mut self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        let object = self.slots.get_mut(descriptor).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.allocated.set(descriptor, false);
        Ok(object)
    }
}

/// A bit per descriptor, set if it is allocated. Finds the lowest free descriptor in constant time.
#[derive(Debug, Default)]
struct Bitmap([u64; MAX_DESCRIPTORS / WORD]);

/// Bits of a word.
const WORD: usize = 64;

impl Bitmap {
    const fn new() -> Self {
        Self([0; MAX_DESCRIPTORS / WORD])
    }

    fn set(&mut self, number: usize, is_allocated: bool) {
        if let Some(word) = self.0.get_mut(number / WORD) {
            let bit = 1 << (number % WORD);
            *word = if is_allocated { *word | bit } else { *word & !bit };
        }
    }

    /// The lowest free number of at least `min`.
    fn lowest_free(&self, min: usize) -> Option<usize> {
        let (first, below) = (min / WORD, (1 << (min % WORD)) - 1);
        let words = self.0.iter().enumerate().skip(first);
        let mut words = words.map(|(index, word)| (index, if index == first { word | below } else { *word }));
        let (index, word) = words.find(|(_, word)| *word != u64::MAX)?;
        Some(index * WORD + word.trailing_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{DescriptorTable, MAX_DESCRIPTORS};
    use crate::Object;
    use alloc::sync::Arc;
    use hermit_interface::Errno;

    #[derive(Debug)]
    struct Nothing;
    impl Object for Nothing {}

    #[test]
    fn insert_and_duplicate_use_the_lowest_free_descriptor() {
        let mut table = DescriptorTable::new();
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
        let mut table = DescriptorTable::new();
        assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.remove(usize::MAX).unwrap_err(), Errno::EBADF);
        table.insert(Arc::new(Nothing)).unwrap();
        table.remove(0).unwrap();
        assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.duplicate(0, 0), Err(Errno::EBADF));
    }

    #[test]
    fn remove_drops_the_tables_reference() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        table.insert(Arc::clone(&object)).unwrap();
        drop(table.remove(0).unwrap());
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn insert_into_a_full_table_is_emfile() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        for _ in 0..MAX_DESCRIPTORS {
            table.insert(Arc::clone(&object)).unwrap();
        }
        assert_eq!(table.insert(object), Err(Errno::EMFILE));
    }

    #[test]
    fn reserved_descriptor_is_allocated_but_not_open() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        assert_eq!(table.reserve(), Ok(0));
        assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.insert(Arc::clone(&object)), Ok(1));
        assert_eq!(table.reserve(), Ok(2));
        table.release(0);
        assert_eq!(table.insert(Arc::clone(&object)), Ok(0));
        table.fill(2, Arc::clone(&object));
        assert!(table.get(2).is_ok() && table.remove(2).is_ok());
        assert_eq!(table.reserve(), Ok(2));
    }

    #[test]
    fn reserved_descriptors_count_towards_the_limit() {
        let mut table = DescriptorTable::new();
        for expected in 0..MAX_DESCRIPTORS {
            assert_eq!(table.reserve(), Ok(expected));
        }
        assert_eq!(table.insert(Arc::new(Nothing)), Err(Errno::EMFILE));
        assert_eq!(table.reserve(), Err(Errno::EMFILE));
        table.release(MAX_DESCRIPTORS - 1);
        assert_eq!(table.insert(Arc::new(Nothing)), Ok(MAX_DESCRIPTORS - 1));
    }

    #[test]
    fn only_free_descriptor_is_found_at_any_index() {
        let mut table = DescriptorTable::new();
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
            assert_eq!(table.insert_from(min, Arc::clone(&object)), Ok(free));
        }
    }
}
