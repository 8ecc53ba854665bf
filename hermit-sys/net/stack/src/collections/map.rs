//! A hash table that grows and shrinks in steps of a few hundred entries: linear hashing (Litwin, 1980).
//!
//! A usual hash table moves all of its entries when it grows, which takes long if there are many. Here the
//! entries are distributed to segments. Each segment is a small hash table of its own. If the mean number of
//! entries in a segment is too large, the next segment in turn is split into two. If the mean is too small,
//! the last split is undone. An insertion or removal therefore moves the entries of one segment at most, and
//! all memory is in small blocks.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hermit_interface::Errno;

/// Mean number of entries per segment above which a segment is split, and below which two are merged. A
/// segment's own table doubles at 224 entries.
const MAX_LOAD: usize = 192;
const MIN_LOAD: usize = 48;

/// Number of the lowest hash bit that selects the segment. The bits below select the place in the segment's
/// table.
const SEGMENT_SHIFT: u32 = 20;

/// Returns the index of a hash's segment among `count` segments. The index consists of the lowest bits that
/// can count to `count - 1`. If there is no segment with this index yet, the highest of these bits is
/// ignored.
#[inline]
fn segment_of(hash: u64, count: usize) -> usize {
    let bits = usize::try_from(hash >> SEGMENT_SHIFT).unwrap_or(0);
    let mask = count.next_power_of_two() - 1;
    let index = bits & mask;
    if index < count { index } else { bits & (mask >> 1) }
}

/// Returns the index of the segment that is split into itself and the segment `new`.
const fn split_into(new: usize) -> Option<usize> {
    match new.checked_ilog2() {
        Some(log) => Some(new - (1 << log)),
        None => None,
    }
}

/// A map whose calls take bounded time.
pub(crate) struct Map<K, V> {
    hasher: FixedState,
    segments: Vec<HashTable<(K, V)>>,
    len: usize,
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.segments.iter().flatten().map(|(key, value)| (key, value))).finish()
    }
}

impl<K: Hash + Eq, V> Map<K, V> {
    /// Creates an empty map. Its hash function depends on the seed, since peers choose the keys.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { hasher: FixedState::with_seed(seed), segments: Vec::new(), len: 0 }
    }

    /// Number of entries.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let hash = self.hasher.hash_one(key);
        let segment = self.segments.get(segment_of(hash, self.segments.len()))?;
        segment.find(hash, |(other, _)| other == key).map(|(_, value)| value)
    }

    /// True if the map has a key.
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Iterates over the values.
    #[cfg(test)]
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.segments.iter().flatten().map(|(_, value)| value)
    }

    /// Reserves memory for a key, so that the following [`insert`](Self::insert) cannot fail.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn try_reserve(&mut self, key: &K) -> Result<(), Errno> {
        // Without memory for another segment, the existing segments take more entries. Only an empty map
        // fails.
        if self.len >= self.segments.len() * MAX_LOAD && self.split().is_none() && self.segments.is_empty() {
            return Err(Errno::ENOMEM);
        }
        let hash = self.hasher.hash_one(key);
        let (hasher, count) = (&self.hasher, self.segments.len());
        let Some(segment) = self.segments.get_mut(segment_of(hash, count)) else { return Err(Errno::ENOMEM) };
        segment.try_reserve(1, |(key, _)| hasher.hash_one(key)).map_err(|_| Errno::ENOMEM)
    }

    /// Inserts a key for which memory is reserved; returns its earlier value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        let (hasher, count) = (&self.hasher, self.segments.len());
        let segment = self.segments.get_mut(segment_of(hash, count))?;
        if let Some((_, earlier)) = segment.find_mut(hash, |(other, _)| *other == key) {
            return Some(core::mem::replace(earlier, value));
        }
        segment.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
        self.len += 1;
        None
    }

    /// Removes a key; returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let count = self.segments.len();
        let segment = self.segments.get_mut(segment_of(hash, count))?;
        let entry = segment.find_entry(hash, |(other, _)| other == key).ok()?;
        let ((_, value), _) = entry.remove();
        self.len -= 1;
        if count > 1 && self.len < count * MIN_LOAD {
            self.merge();
        }
        Some(value)
    }

    /// Adds a segment with about half of the entries of another one; `None` without memory.
    fn split(&mut self) -> Option<()> {
        self.segments.try_reserve(1).ok()?;
        let (hasher, new) = (&self.hasher, self.segments.len());
        let hash = |(key, _): &(K, V)| hasher.hash_one(key);
        let mut segment = HashTable::new();
        if let Some(other) = split_into(new).and_then(|other| self.segments.get_mut(other)) {
            // All of the entries may move.
            segment.try_reserve(other.len(), hash).ok()?;
            for entry in other.extract_if(|entry| segment_of(hash(entry), new + 1) == new) {
                segment.insert_unique(hash(&entry), entry, hash);
            }
        }
        self.segments.push(segment);
        Some(())
    }

    /// Moves the entries of the last segment to the segment from which it was split. Does nothing without
    /// memory.
    fn merge(&mut self) {
        let hasher = &self.hasher;
        let hash = |(key, _): &(K, V)| hasher.hash_one(key);
        let Some((last, others)) = self.segments.split_last_mut() else { return };
        let Some(other) = split_into(others.len()).and_then(|other| others.get_mut(other)) else { return };
        if other.try_reserve(last.len(), hash).is_ok() {
            for entry in last.drain() {
                other.insert_unique(hash(&entry), entry, hash);
            }
            self.segments.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LOAD, MIN_LOAD, Map, segment_of, split_into};
    use core::cell::Cell;
    use core::hash::{Hash, Hasher};
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};
    use std::collections::HashMap;
    use std::thread_local;

    proptest! {
        #[test]
        fn map_agrees_with_that_of_std(steps in vec((0..3_u8, 0..2000_u16), 0..if cfg!(miri) { 200 } else { 4000 })) {
            let (mut map, mut model) = (Map::new(1), HashMap::new());
            for (step, key) in steps {
                match step {
                    0 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    _ => {
                        map.try_reserve(&key).unwrap();
                        prop_assert_eq!(map.insert(key, step), model.insert(key, step));
                    }
                }
                prop_assert_eq!((map.get(&key), map.len()), (model.get(&key), model.len()));
            }
            prop_assert_eq!(map.values().count(), model.len());
            for (key, value) in &model {
                prop_assert_eq!(map.get(key), Some(value));
            }
        }

        #[test]
        fn segment_splits_into_itself_and_the_new_one(hash: u64, count in 1..5000_usize) {
            let (before, after) = (segment_of(hash, count), segment_of(hash, count + 1));
            let is_moved = Some(before) == split_into(count) && after == count;
            prop_assert_eq!(before == after || is_moved, true, "{} {}", before, after);
        }
    }

    thread_local! {
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// A key that counts how often keys are hashed.
    #[derive(PartialEq, Eq)]
    struct Counted(u32);

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            HASHED.set(HASHED.get() + 1);
            self.0.hash(state);
        }
    }

    #[test]
    fn no_call_moves_more_than_a_few_segments() {
        const COUNT: u32 = if cfg!(miri) { 2_000 } else { 100_000 };
        let mut map = Map::new(7);
        let mut most = 0;
        for key in 0..COUNT {
            HASHED.set(0);
            map.try_reserve(&Counted(key)).unwrap();
            map.insert(Counted(key), key);
            most = most.max(HASHED.get());
        }
        let segments = map.segments.len();
        assert!(segments >= usize::try_from(COUNT).unwrap() / MAX_LOAD, "{segments}");
        for key in 0..COUNT {
            HASHED.set(0);
            assert_eq!(map.remove(&Counted(key)), Some(key));
            most = most.max(HASHED.get());
        }
        assert!(most < 6 * MAX_LOAD, "{most}");
        assert!(map.segments.len() <= 1 + 1 / MIN_LOAD && map.len() == 0);
    }
}
