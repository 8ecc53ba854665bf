//! Which descriptor stands for which object.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::Object;

/// A descriptor: a small number.
pub type Descriptor = usize;

/// Most descriptors at a time, as on Linux by default.
const MAX: usize = 1024;

/// The open descriptors.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Option<Arc<dyn Object>>>,
}

impl Table {
    /// No descriptor is open.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new() }
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
        let free = (least..self.slots.len()).find(|&slot| self.slots[slot].is_none());
        let free = free.unwrap_or(self.slots.len().max(least));
        if free >= MAX {
            return Err(Errno::EMFILE);
        }
        let missing = (free + 1).saturating_sub(self.slots.len());
        self.slots.try_reserve(missing).map_err(|_| Errno::ENOMEM)?;
        self.slots.resize(self.slots.len() + missing, None);
        self.slots[free] = Some(object);
        Ok(free)
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
        self.slots.get_mut(descriptor).and_then(Option::take).ok_or(Errno::EBADF)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX, Table};
    use crate::Object;
    use alloc::sync::Arc;
    use hermit_interface::Errno;

    #[derive(Debug)]
    struct Nothing;
    impl Object for Nothing {}

    #[test]
    fn the_lowest_free_descriptor_is_used() {
        let mut table = Table::new();
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
        let mut table = Table::new();
        assert_eq!(table.get(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.remove(usize::MAX).unwrap_err(), Errno::EBADF);
        table.insert(Arc::new(Nothing)).unwrap();
        table.remove(0).unwrap();
        assert_eq!(table.remove(0).unwrap_err(), Errno::EBADF);
        assert_eq!(table.duplicate(0, 0), Err(Errno::EBADF));
    }

    #[test]
    fn an_object_lives_while_it_is_used() {
        let mut table = Table::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        table.insert(Arc::clone(&object)).unwrap();
        drop(table.remove(0).unwrap());
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn there_is_a_limit() {
        let mut table = Table::new();
        let object: Arc<dyn Object> = Arc::new(Nothing);
        for _ in 0..MAX {
            table.insert(Arc::clone(&object)).unwrap();
        }
        assert_eq!(table.insert(object), Err(Errno::EMFILE));
    }
}
