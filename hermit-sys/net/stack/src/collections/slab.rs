//! A table of values in numbered slots, which are reused, and keys with a generation.
//!
//! A slot is the index of a value. When the value is removed, the slot is reused for another one. A [`Key`]
//! consists of a slot and the number of its earlier uses, so that the key of a removed value is never valid
//! again. Each value has an allocation of its own. When the table grows, only a few bytes move for each slot,
//! and the memory of a removed value is freed.

use alloc::vec::Vec;

use hermit_base::try_alloc::TryBox;
use hermit_interface::Errno;

/// Number of low bits of a slot that are its index in the table. The bits above are the number of the table,
/// so that the slots of different tables differ.
const INDEX_BITS: u32 = 24;

/// Maximum number of tables with different slots.
pub(crate) const MAX_TABLES: u32 = 1 << (31 - INDEX_BITS);

/// Number of the table that a slot belongs to.
pub(crate) const fn table_of(slot: u32) -> u32 {
    slot >> INDEX_BITS
}

/// Index of a slot in its table.
pub(crate) fn index_of(slot: u32) -> usize {
    usize::try_from(slot & ((1 << INDEX_BITS) - 1)).unwrap_or(usize::MAX)
}

/// A slot, and the number of its earlier uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Key {
    /// Converts to a number.
    pub(crate) fn into_raw(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.slot)
    }

    /// Converts from a number.
    pub(crate) fn from_raw(raw: u64) -> Self {
        let [slot, generation] =
            [raw & u64::from(u32::MAX), raw >> 32].map(|half| u32::try_from(half).unwrap_or(u32::MAX));
        Self { slot, generation }
    }
}

#[derive(Debug)]
struct Row<T> {
    /// Number of earlier uses of the slot.
    generation: u32,
    value: Option<TryBox<T>>,
}

/// Values in numbered slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Slot with index 0.
    base: u32,
    rows: Vec<Row<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Creates an empty table with this number, below [`MAX_TABLES`].
    pub(crate) const fn numbered(table: u32) -> Self {
        Self { base: table << INDEX_BITS, rows: Vec::new(), free: Vec::new() }
    }

    fn row(&self, slot: u32) -> Option<&Row<T>> {
        self.rows.get(index_of(slot))
    }

    fn row_mut(&mut self, slot: u32) -> Option<&mut Row<T>> {
        self.rows.get_mut(index_of(slot))
    }

    /// Stores a value; returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32, Errno> {
        let value = Some(TryBox::try_new(value)?);
        if let Some(slot) = self.free.pop() {
            if let Some(row) = self.row_mut(slot) {
                row.value = value;
            }
            return Ok(slot);
        }
        self.rows.try_reserve(1)?;
        // Reserves the free list, so that removing cannot fail.
        let rows = self.rows.len() + 1;
        self.free.try_reserve(rows - self.free.len())?;
        let slot = self.slot_at(self.rows.len()).ok_or(Errno::ENOMEM)?;
        self.rows.push(Row { generation: 0, value });
        Ok(slot)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.row(slot)?.value.as_deref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.row_mut(slot)?.value.as_deref_mut()
    }

    /// Returns the values in two different slots.
    pub(crate) fn get_pair_mut(&mut self, one: u32, other: u32) -> Option<(&mut T, &mut T)> {
        let [one, other] = self.rows.get_disjoint_mut([one, other].map(index_of)).ok()?;
        Some((one.value.as_deref_mut()?, other.value.as_deref_mut()?))
    }

    /// Removes and returns a value, and begins a new generation of its slot.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let row = self.row_mut(slot)?;
        let value = TryBox::into_inner(row.value.take()?);
        row.generation = row.generation.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    /// Key of the value in a slot.
    pub(crate) fn key(&self, slot: u32) -> Key {
        Key { slot, generation: self.row(slot).map_or(0, |row| row.generation) }
    }

    /// Returns the slot of a key, unless its value has been removed.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn slot(&self, key: Key) -> Result<u32, Errno> {
        let row = self.row(key.slot).filter(|row| row.generation == key.generation && row.value.is_some());
        row.map(|_| key.slot).ok_or(Errno::EBADF)
    }

    /// Returns the slot with an index; `None` if a table cannot be so large.
    pub(crate) fn slot_at(&self, index: usize) -> Option<u32> {
        let index = u32::try_from(index).ok().filter(|&index| index < 1 << INDEX_BITS)?;
        Some(self.base | index)
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
    use super::{Key, MAX_TABLES, Slab, index_of, table_of};
    use crate::Errno;

    #[test]
    fn reused_slot_has_a_new_key() {
        let mut slab = Slab::numbered(0);
        let slot = slab.insert('a').unwrap();
        let key = slab.key(slot);
        assert_eq!((slab.slot(key), slab.get(slot)), (Ok(slot), Some(&'a')));
        assert_eq!(slab.remove(slot), Some('a'));
        assert_eq!((slab.slot(key), slab.remove(slot)), (Err(Errno::EBADF), None));
        assert_eq!(slab.insert('b').unwrap(), slot);
        assert_eq!(slab.slot(key), Err(Errno::EBADF));
        assert_eq!(slab.slot(slab.key(slot)), Ok(slot));
        assert_eq!((slab.len(), slab.slots()), (1, 1));
        assert_eq!(slab.slot(Key::from_raw(u64::MAX)), Err(Errno::EBADF));
    }

    #[test]
    fn slots_of_numbered_tables_differ() {
        for number in [0, 1, MAX_TABLES - 1] {
            let mut slab = Slab::numbered(number);
            let slots = ['a', 'b'].map(|value| slab.insert(value).unwrap());
            assert_eq!(slots.map(|slot| (table_of(slot), index_of(slot))), [(number, 0), (number, 1)]);
            assert_eq!((slab.get(slots[1]), slab.slot_at(1)), (Some(&'b'), Some(slots[1])));
            // The highest bit is free for others.
            assert_eq!(slots[1] >> 31, 0);
            assert_eq!(slab.slot_at(1 << 24), None);
        }
    }

    #[test]
    fn growth_moves_no_values() {
        let mut slab = Slab::numbered(0);
        let first = slab.insert([0_u8; 1000]).unwrap();
        let place = core::ptr::from_ref(slab.get(first).unwrap());
        for _ in 0..1000 {
            slab.insert([0; 1000]).unwrap();
        }
        assert_eq!(core::ptr::from_ref(slab.get(first).unwrap()), place);
        assert!(size_of_val(&slab.rows[0]) <= 16);
    }

    #[test]
    fn pair_is_of_two_used_slots() {
        let mut slab = Slab::numbered(0);
        let [one, other] = ['a', 'b'].map(|value| slab.insert(value).unwrap());
        assert_eq!(slab.get_pair_mut(other, one), Some((&mut 'b', &mut 'a')));
        assert_eq!(slab.get_pair_mut(one, one), None);
        assert_eq!(slab.get_pair_mut(one, 9), None);
        slab.remove(other);
        assert_eq!(slab.get_pair_mut(one, other), None);
    }
}
