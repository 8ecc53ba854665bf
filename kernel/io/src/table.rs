//! Which descriptor stands for which object.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::Object;

/// A descriptor: a small number.
pub type Descriptor = usize;

/// Most descriptors at a time, as on Linux by default.
const MAX: usize = 1024;

/// The open descriptors, and those that are going to be.
#[derive(Debug, Default)]
pub struct DescriptorTable {
    slots: Vec<Option<Arc<dyn Object>>>,
    taken: Numbers,
}

impl DescriptorTable {
    /// No descriptor is open.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), taken: Numbers::new() }
    }

    /// Opens the lowest free descriptor.
    ///
    /// # Errors
    ///
    /// `EMFILE` if there are too many, `ENOMEM` if there is no memory.
    pub fn insert(&mut self, object: Arc<dyn Object>) -> Result<Descriptor, Errno> {
        self.insert_from(0, object)
    }

    /// Opens the lowest free descriptor that is not below `least`.
    fn insert_from(&mut self, least: Descriptor, object: Arc<dyn Object>) -> Result<Descriptor, Errno> {
        let descriptor = self.reserve_from(least)?;
        self.fill(descriptor, object);
        Ok(descriptor)
    }

    /// Takes the lowest free descriptor, for an object that comes later. Nobody else gets it, and it is not open, until there is
    /// the object ([`Self::fill`]) or there will be none ([`Self::release`]).
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`].
    pub fn reserve(&mut self) -> Result<Descriptor, Errno> {
        self.reserve_from(0)
    }

    fn reserve_from(&mut self, least: Descriptor) -> Result<Descriptor, Errno> {
        let free = self.taken.lowest_free(least).ok_or(Errno::EMFILE)?;
        let missing = (free + 1).saturating_sub(self.slots.len());
        self.slots.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        self.slots.resize(self.slots.len() + missing, None);
        self.taken.set(free, true);
        Ok(free)
    }

    /// Opens a descriptor that was reserved.
    pub fn fill(&mut self, descriptor: Descriptor, object: Arc<dyn Object>) {
        if let Some(slot) = self.slots.get_mut(descriptor) {
            *slot = Some(object);
        }
    }

    /// Gives up a descriptor that was reserved.
    pub fn release(&mut self, descriptor: Descriptor) {
        self.taken.set(descriptor, false);
    }

    /// The object of a descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn get(&self, descriptor: Descriptor) -> Result<Arc<dyn Object>, Errno> {
        self.slots.get(descriptor).and_then(Clone::clone).ok_or(Errno::EBADF)
    }

    /// Opens another descriptor for the same object, the lowest free one that is not below `least`.
    ///
    /// # Errors
    ///
    /// As [`Self::get`] and [`Self::insert`], and `EINVAL` if no descriptor can be so high.
    pub fn duplicate(&mut self, descriptor: Descriptor, least: Descriptor) -> Result<Descriptor, Errno> {
        let object = self.get(descriptor)?;
        if least >= MAX {
            return Err(Errno::EINVAL);
        }
        self.insert_from(least, object)
    }

    /// Closes a descriptor and returns its object, which lives on while it is used.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open.
    pub fn remove(&mut self, descriptor: Descriptor) -> Result<Arc<dyn Object>, Errno> {
        let object = self.slots.get_mut(descriptor).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.taken.set(descriptor, false);
        Ok(object)
    }
}

/// Numbers below [`MAX`], a bit for each that is taken: the lowest free one is found at once, however many are not.
#[derive(Debug, Default)]
struct Numbers([u64; MAX / WORD]);

/// Bits of a word.
const WORD: usize = 64;

impl Numbers {
    const fn new() -> Self {
        Self([0; MAX / WORD])
    }

    fn set(&mut self, number: usize, is_taken: bool) {
        if let Some(word) = self.0.get_mut(number / WORD) {
            let bit = 1 << (number % WORD);
            *word = if is_taken { *word | bit } else { *word & !bit };
        }
    }

    /// The lowest one that is not below `least`.
    fn lowest_free(&self, least: usize) -> Option<usize> {
        let (first, below) = (least / WORD, (1 << (least % WORD)) - 1);
        let words = self.0.iter().enumerate().skip(first);
        let mut words = words.map(|(place, word)| (place, if place == first { word | below } else { *word }));
        let (place, word) = words.find(|(_, word)| *word != u64::MAX)?;
        Some(place * WORD + word.trailing_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{DescriptorTable, MAX};
    use crate::Object;
    use alloc::sync::Arc;
    use hermit_interface::Errno;

    #[derive(Debug)]
    struct Nothing;
    impl Object for Nothing {}

    #[test]
    fn the_lowest_free_descriptor_is_used() {
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
        assert_eq!(table.duplicate(2, MAX), Err(Errno::EINVAL));
        assert_eq!(table.duplicate(5, 0), Err(Errno::EBADF));
    }

    #[test]
    fn a_closed_descriptor_is_bad() {
        let mut table = DescriptorTable::new();
        assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.remove(usize::MAX).unwrap_err(), Errno::EBADF);
        table.insert(Arc::new(Nothing)).unwrap();
        table.remove(0).unwrap();
        assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.duplicate(0, 0), Err(Errno::EBADF));
    }

    #[test]
    fn an_object_lives_while_it_is_used() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        table.insert(Arc::clone(&object)).unwrap();
        drop(table.remove(0).unwrap());
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn there_is_a_limit() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        for _ in 0..MAX {
            table.insert(Arc::clone(&object)).unwrap();
        }
        assert_eq!(table.insert(object), Err(Errno::EMFILE));
    }

    #[test]
    fn a_reserved_descriptor_is_not_open_and_nobody_elses() {
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
    fn reserved_descriptors_count() {
        let mut table = DescriptorTable::new();
        for expected in 0..MAX {
            assert_eq!(table.reserve(), Ok(expected));
        }
        assert_eq!(table.insert(Arc::new(Nothing)), Err(Errno::EMFILE));
        assert_eq!(table.reserve(), Err(Errno::EMFILE));
        table.release(MAX - 1);
        assert_eq!(table.insert(Arc::new(Nothing)), Ok(MAX - 1));
    }

    #[test]
    fn the_only_free_one_is_found_wherever_it_is() {
        let mut table = DescriptorTable::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        for _ in 0..MAX {
            table.insert(Arc::clone(&object)).unwrap();
        }
        for free in 0..MAX {
            table.remove(free).unwrap();
            if free + 1 < MAX {
                assert_eq!(table.duplicate(MAX - 1, free + 1), Err(Errno::EMFILE));
            }
            let least = free.saturating_sub(free % 100);
            assert_eq!(table.insert_from(least, Arc::clone(&object)), Ok(free));
        }
    }
}
