//! The table of open file descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::Object;

/// A file descriptor.
pub type FileDescriptor = usize;

/// Maximum number of open descriptors.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// The open and reserved descriptors. The table grows with the highest of them.
///
/// It is meant to be used under a spinlock, under which no object may be dropped, as that may sleep: no method drops
/// the last reference to an object.
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

    /// Reserves the lowest free descriptor. It is allocated but not open until [`Self::fill`] opens it or
    /// [`Self::release`] frees it.
    ///
    /// # Errors
    ///
    /// `EMFILE` if all descriptors are allocated, `ENOMEM`.
    pub fn reserve(&mut self) -> Result<FileDescriptor, Errno> {
        self.reserve_from(0)
    }

    /// Reserves the lowest free descriptor of at least `min`.
    fn reserve_from(&mut self, min: FileDescriptor) -> Result<FileDescriptor, Errno> {
        let free = self.allocated.lowest_free(min).ok_or(Errno::EMFILE)?;
        let missing = (free + 1).saturating_sub(self.slots.len());
        self.slots.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        self.allocated.allocate(free)?;
        self.slots.resize(self.slots.len() + missing, None);
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
        self.allocated.free(descriptor);
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
    /// As [`Self::get`] and [`Self::reserve`], and `EINVAL` if `min` is not below the limit.
    pub fn duplicate(
        &mut self,
        descriptor: FileDescriptor,
        min: FileDescriptor,
    ) -> Result<FileDescriptor, Errno> {
        // If this reference is dropped, it is not the last: the table keeps its own.
        let object = self.get(descriptor)?;
        if min >= MAX_DESCRIPTORS {
            return Err(Errno::EINVAL);
        }
        let duplicate = self.reserve_from(min)?;
        self.fill(duplicate, object);
        Ok(duplicate)
    }

    /// Closes a descriptor and returns its object, which other references may keep alive.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn remove(&mut self, descriptor: FileDescriptor) -> Result<Arc<dyn Object>, Errno> {
        let object = self.slots.get_mut(descriptor).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.allocated.free(descriptor);
        Ok(object)
    }
}

/// A bit per descriptor, set if it is allocated. Finds the lowest free descriptor in constant time.
#[derive(Debug, Default)]
struct Bitmap {
    /// Words that do not exist have no bit set.
    words: Vec<u64>,
    /// A bit per word, set if all bits of the word are.
    full: [u64; MAX_WORDS / WORD],
}

/// Bits of a word.
const WORD: usize = 64;

/// Number of words for all descriptors.
const MAX_WORDS: usize = MAX_DESCRIPTORS / WORD;

impl Bitmap {
    const fn new() -> Self {
        Self { words: Vec::new(), full: [0; MAX_WORDS / WORD] }
    }

    /// Sets the bit of a number below the limit.
    fn allocate(&mut self, number: usize) -> Result<(), Errno> {
        let missing = (number / WORD + 1).saturating_sub(self.words.len());
        self.words.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        self.words.resize(self.words.len() + missing, 0);
        self.update(number, |word, bit| word | bit);
        Ok(())
    }

    /// Clears the bit of a number.
    fn free(&mut self, number: usize) {
        self.update(number, |word, bit| word & !bit);
    }

    fn update(&mut self, number: usize, change: impl Fn(u64, u64) -> u64) {
        let index = number / WORD;
        let Some(word) = self.words.get_mut(index) else { return };
        *word = change(*word, 1 << (number % WORD));
        if let Some(full) = self.full.get_mut(index / WORD) {
            let bit = 1 << (index % WORD);
            *full = if *word == u64::MAX { *full | bit } else { *full & !bit };
        }
    }

    /// The lowest free number of at least `min`.
    fn lowest_free(&self, min: usize) -> Option<usize> {
        let below = (1 << (min % WORD)) - 1;
        let first = self.word(min / WORD) | below;
        if first != u64::MAX && min < MAX_DESCRIPTORS {
            return Some(min / WORD * WORD + first.trailing_ones() as usize);
        }
        let index = lowest_zero(&self.full, min / WORD + 1)?;
        Some(index * WORD + self.word(index).trailing_ones() as usize)
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
}

/// The lowest number of at least `min` whose bit is not set.
fn lowest_zero(words: &[u64], min: usize) -> Option<usize> {
    let (first, below) = (min / WORD, (1 << (min % WORD)) - 1);
    let words = words.iter().enumerate().skip(first);
    let mut words = words.map(|(index, word)| (index, if index == first { word | below } else { *word }));
    let (index, word) = words.find(|(_, word)| *word != u64::MAX)?;
    Some(index * WORD + word.trailing_ones() as usize)
}

#[cfg(test)]
mod tests {
    use super::{DescriptorTable, FileDescriptor, MAX_DESCRIPTORS};
    use crate::Object;
    use alloc::sync::Arc;
    use hermit_interface::Errno;

    #[derive(Debug)]
    struct Nothing;
    impl Object for Nothing {}

    impl DescriptorTable {
        fn insert(&mut self, object: Arc<dyn Object>) -> Result<FileDescriptor, Errno> {
            let descriptor = self.reserve()?;
            self.fill(descriptor, object);
            Ok(descriptor)
        }
    }

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
    #[cfg_attr(miri, ignore = "65,536 descriptors take minutes")]
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
    #[cfg_attr(miri, ignore = "65,536 descriptors take minutes")]
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
            assert_eq!(table.duplicate(usize::from(free == 0), min), Ok(free));
        }
    }

    #[test]
    fn table_grows_with_its_highest_descriptor() {
        let mut table = DescriptorTable::new();
        assert_eq!(table.slots.capacity() + table.allocated.words.capacity(), 0);
        table.insert(Arc::new(Nothing)).unwrap();
        assert!(table.slots.capacity() <= 64);
        assert_eq!(table.duplicate(0, 5_000), Ok(5_000));
        assert_eq!((table.slots.len(), table.allocated.words.len()), (5_001, 79));
        assert_eq!(table.duplicate(0, MAX_DESCRIPTORS - 1), Ok(MAX_DESCRIPTORS - 1));
        assert_eq!(table.duplicate(0, MAX_DESCRIPTORS - 1), Err(Errno::EMFILE));
        assert_eq!(table.duplicate(0, 5_000), Ok(5_001));
        assert_eq!(table.get(4_999).unwrap_err(), Errno::EBADF);
        assert_eq!(table.reserve(), Ok(1));
    }
}
