//! A table with reused slots, and identifiers with a generation.

use alloc::vec::Vec;

use hermit_interface::Errno;

use crate::socket::id::SocketId;

#[derive(Debug)]
struct Row<T> {
    /// Number of times the slot was used before.
    generation: u32,
    value: Option<T>,
}

/// Values in numbered slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<Row<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }

    fn row(&self, slot: u32) -> Option<&Row<T>> {
        self.rows.get(usize::try_from(slot).ok()?)
    }

    fn row_mut(&mut self, slot: u32) -> Option<&mut Row<T>> {
        self.rows.get_mut(usize::try_from(slot).ok()?)
    }

    /// Stores a value; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32, Errno> {
        if let Some(slot) = self.free.pop() {
            if let Some(row) = self.row_mut(slot) {
                row.value = Some(value);
            }
            return Ok(slot);
        }
        self.rows.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        // Reserves the free list, so that removing cannot fail.
        let rows = self.rows.len() + 1;
        self.free.try_reserve(rows - self.free.len()).map_err(|_| Errno::ENOMEM)?;
        let slot = u32::try_from(self.rows.len()).map_err(|_| Errno::ENOMEM)?;
        self.rows.push(Row { generation: 0, value: Some(value) });
        Ok(slot)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.row(slot)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.row_mut(slot)?.value.as_mut()
    }

    /// Removes a value; its slot gets a new identifier when it is reused.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let row = self.row_mut(slot)?;
        let value = row.value.take()?;
        row.generation = row.generation.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    /// Identifier of the value in a slot.
    pub(crate) fn id(&self, slot: u32) -> SocketId {
        SocketId::new(slot, self.row(slot).map_or(0, |row| row.generation))
    }

    /// Slot of an identifier, unless its value has been removed.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn slot(&self, id: SocketId) -> Result<u32, Errno> {
        let (slot, generation) = id.parts();
        let row = self.row(slot).filter(|row| row.generation == generation && row.value.is_some());
        row.map(|_| slot).ok_or(Errno::EBADF)
    }

    /// Iterates over all values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().filter_map(|row| row.value.as_mut())
    }

    /// Number of slots, used or free.
    pub(crate) fn slots(&self) -> usize {
        self.rows.len()
    }

    /// Number of values.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;
    use crate::{Errno, SocketId};

    #[test]
    fn reused_slot_has_a_new_id() {
        let mut slab = Slab::new();
        let slot = slab.insert('a').unwrap();
        let id = slab.id(slot);
        assert_eq!((slab.slot(id), slab.get(slot)), (Ok(slot), Some(&'a')));
        assert_eq!(slab.remove(slot), Some('a'));
        assert_eq!((slab.slot(id), slab.remove(slot)), (Err(Errno::EBADF), None));
        assert_eq!(slab.insert('b').unwrap(), slot);
        assert_eq!(slab.slot(id), Err(Errno::EBADF));
        assert_eq!(slab.slot(slab.id(slot)), Ok(slot));
        assert_eq!((slab.len(), slab.slots()), (1, 1));
        assert_eq!(slab.slot(SocketId::from_raw(u64::MAX)), Err(Errno::EBADF));
    }
}
