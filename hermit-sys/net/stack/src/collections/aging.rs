//! A table whose entries expire in the order of their insertion.
//!
//! All entries of a table have the same lifetime, so a linked list has them in order of age. An entry that is
//! removed early leaves nothing in the list.

use core::hash::Hash;

use hermit_interface::Errno;

use crate::collections::map::Map;
use crate::collections::slab::Slab;

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Time in nanoseconds.
    expires: u64,
    /// Slots of the neighbors in the list.
    older: Option<u32>,
    newer: Option<u32>,
}

/// Entries by key and by age. The owner counts the memory of the entries, and bounds it with
/// [`remove_oldest`](Self::remove_oldest).
#[derive(Debug)]
pub(crate) struct Aging<K, V> {
    /// Lifetime of an entry in nanoseconds.
    lifetime: u64,
    slots: Map<K, u32>,
    entries: Slab<Entry<K, V>>,
    oldest: Option<u32>,
    newest: Option<u32>,
    /// Time in nanoseconds at which the oldest entry expires. It is stored here, since each poll reads it.
    deadline: Option<u64>,
}

impl<K: Copy + Hash + Eq, V> Aging<K, V> {
    /// Creates an empty table, whose hash function depends on the seed.
    pub(crate) const fn new(seed: u64, lifetime: u64) -> Self {
        Self {
            lifetime,
            slots: Map::new(seed),
            entries: Slab::numbered(0),
            oldest: None,
            newest: None,
            deadline: None,
        }
    }

    /// Number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there is an entry with a key.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.slots.contains_key(key)
    }

    /// Returns the value of a key.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let slot = *self.slots.get(key)?;
        self.entries.get_mut(slot).map(|entry| &mut entry.value)
    }

    /// Time at which the oldest entry expires.
    #[inline]
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Adds an entry, which replaces an entry with the same key.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, key: K, value: V, now: u64) -> Result<(), Errno> {
        self.remove(&key);
        self.slots.try_reserve(&key)?;
        let expires = now.saturating_add(self.lifetime);
        let entry = Entry { key, value, expires, older: self.newest, newer: None };
        let slot = self.entries.insert(entry)?;
        self.slots.insert(key, slot);
        let before = self.newest.replace(slot);
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(before) => before.newer = Some(slot),
            None => (self.oldest, self.deadline) = (Some(slot), Some(expires)),
        }
        Ok(())
    }

    /// Removes an entry; returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.remove(key)?;
        let Entry { value, older, newer, .. } = self.entries.remove(slot)?;
        match older.and_then(|older| self.entries.get_mut(older)) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|newer| self.entries.get_mut(newer)) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        self.deadline = self.oldest.and_then(|oldest| self.entries.get(oldest)).map(|entry| entry.expires);
        Some(value)
    }

    /// Removes and returns the oldest entry.
    pub(crate) fn remove_oldest(&mut self) -> Option<(K, V)> {
        let key = self.entries.get(self.oldest?)?.key;
        self.remove(&key).map(|value| (key, value))
    }

    /// Removes and returns an entry that has expired.
    pub(crate) fn remove_expired(&mut self, now: u64) -> Option<(K, V)> {
        self.deadline().filter(|&deadline| deadline <= now)?;
        self.remove_oldest()
    }
}

#[cfg(test)]
mod tests {
    use super::Aging;
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};
    use std::vec::Vec;

    const LIFETIME: u64 = 20;

    proptest! {
        #[test]
        fn entries_are_in_order_of_insertion(steps in vec((0..5_u8, 0..16_u8), 0..300)) {
            let mut table = Aging::new(1, LIFETIME);
            // Key, value and time of expiry.
            let mut model: Vec<(u8, u64, u64)> = Vec::new();
            for ((step, key), now) in steps.into_iter().zip(0_u64..) {
                let place = model.iter().position(|&(other, ..)| other == key);
                match step {
                    0 => prop_assert_eq!(table.remove(&key), place.map(|place| model.remove(place).1)),
                    1 => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(table.remove_oldest(), oldest.map(|(key, value, _)| (key, value)));
                    }
                    2 => {
                        let expired = model.first().is_some_and(|&(.., expires)| expires <= now);
                        let expired = expired.then(|| model.remove(0));
                        prop_assert_eq!(table.remove_expired(now), expired.map(|(key, value, _)| (key, value)));
                    }
                    _ => {
                        if let Some(place) = place {
                            model.remove(place);
                        }
                        model.push((key, now, now + LIFETIME));
                        table.insert(key, now, now).unwrap();
                    }
                }
                let value = model.iter().find(|&&(other, ..)| other == key).map(|&(_, value, _)| value);
                prop_assert_eq!(table.get_mut(&key).copied(), value);
                prop_assert_eq!((table.len(), table.contains(&key)), (model.len(), value.is_some()));
                prop_assert_eq!(table.deadline(), model.first().map(|&(.., expires)| expires));
            }
        }
    }
}
