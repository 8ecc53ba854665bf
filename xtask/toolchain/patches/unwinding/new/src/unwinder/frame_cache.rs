//! Descriptions of frames that were unwound before, by an address in their function.
//!
//! The tables of an image never change, so an entry is valid forever. Threads that panic at the same time
//! share the cache without waiting: a slot is a sequence lock, whose reader takes a slot that is being
//! written as one that has another address, and whose writer gives up if another one is there.

use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// Number of words of a description: with version and address, a slot is a cache line.
pub(super) const WORDS: usize = 6;

/// Number of sets, a power of two.
const SETS: usize = 32;

/// 2^64 divided by the golden ratio: a product with it has upper bits that are different for neighboring
/// addresses.
const SPREAD: usize = 0x9e37_79b9_7f4a_7c15;

/// Slots in which an address may be.
const WAYS: usize = 4;

/// The cache.
pub(super) struct Cache {
    sets: [[Slot; WAYS]; SETS],
    /// Number of replaced slots: the next one to be replaced is that of another way.
    replaced: AtomicUsize,
}

#[repr(align(64))]
struct Slot {
    /// Number of writes, twice: 0 if there was none, odd while the slot is written.
    version: AtomicUsize,
    address: AtomicUsize,
    words: [AtomicUsize; WORDS],
}

impl Cache {
    pub(super) const fn new() -> Self {
        let sets = [const { [const { Slot::new() }; WAYS] }; SETS];
        Self { sets, replaced: AtomicUsize::new(0) }
    }

    /// Returns the words that were inserted for the address, unless they were replaced.
    pub(super) fn find(&self, address: usize) -> Option<[usize; WORDS]> {
        self.set(address).iter().find_map(|slot| slot.read(address))
    }

    /// Inserts the words for the address, in an empty slot if there is one.
    pub(super) fn insert(&self, address: usize, words: [usize; WORDS]) {
        let set = self.set(address);
        let empty = set.iter().find(|slot| slot.version.load(Ordering::Relaxed) == 0);
        let slot = empty.unwrap_or_else(|| &set[self.replaced.fetch_add(1, Ordering::Relaxed) % WAYS]);
        slot.write(address, words);
    }

    fn set(&self, address: usize) -> &[Slot; WAYS] {
        &self.sets[address.wrapping_mul(SPREAD) >> (usize::BITS - SETS.ilog2())]
    }
}

impl Slot {
    const fn new() -> Self {
        let words = [const { AtomicUsize::new(0) }; WORDS];
        Self { version: AtomicUsize::new(0), address: AtomicUsize::new(0), words }
    }

    fn read(&self, address: usize) -> Option<[usize; WORDS]> {
        // Acquire: pairs with the release of the write that ended with this version, so its words are
        // visible.
        let version = self.version.load(Ordering::Acquire);
        let is_written = version != 0 && version.is_multiple_of(2);
        if !is_written || self.address.load(Ordering::Relaxed) != address {
            return None;
        }
        let words = core::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        // Pairs with the fence of writers: if a word is of a later write, the version has changed.
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(words)
    }

    fn write(&self, address: usize, words: [usize; WORDS]) {
        let version = self.version.load(Ordering::Relaxed);
        // Acquire: no word of an earlier write is stored after those of this one.
        let lock =
            || self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed);
        if !version.is_multiple_of(2) || lock().is_err() {
            return;
        }
        // Pairs with the fence of readers: who reads a word that is stored below sees the odd version.
        fence(Ordering::Release);
        self.address.store(address, Ordering::Relaxed);
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}
