//! A queue of wakers. All operations take constant time, however many wakers the queue has, except adding
//! one: that takes constant time amortised, since the list of chunks may have to be copied (24 bytes for each
//! chunk of 32 wakers).
//!
//! The first waker is stored in the queue itself. All others are in slots, which are linked in the order of
//! arrival and are found by a hash of the waker. The hash table grows by one bucket with each slot (linear
//! hashing): the new bucket takes its share of the slots from a single other bucket. So no step rehashes the
//! whole table. This matters because the queue is used under a spinlock.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::task::Waker;

/// Maximum number of slots that are allocated together: 1 KiB.
const CHUNK_SIZE: usize = 32;

/// Marks that there is no slot, in place of the index of a slot.
const NONE: u32 = u32::MAX;

/// A queue of wakers in the order of their arrival. It has each waker only once.
///
/// The first waker needs no allocated memory, since most queues have at most one waker at a time. The memory
/// of the others is kept until the queue is taken ([`WakerQueue::take`]) or dropped.
#[derive(Debug, Default)]
pub struct WakerQueue {
    /// The first waker. If it is `None`, there are no others.
    first: Option<Waker>,
    others: LinkedWakers,
}

impl WakerQueue {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: None, others: LinkedWakers::new() }
    }

    /// Adds a waker at the end, unless the queue already has a waker that wakes the same task.
    ///
    /// # Errors
    ///
    /// There is no memory for the waker.
    #[inline]
    pub fn add(&mut self, waker: &Waker) -> Result<(), TryReserveError> {
        match &self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) => self.others.add(waker)?,
        }
        Ok(())
    }

    /// True if the queue has no waker.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the number of wakers. It takes time in proportion to the number.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(!self.is_empty()) + self.others.len()
    }

    /// Returns true if the queue has a waker that wakes the same task as `waker`.
    #[must_use]
    pub fn contains(&self, waker: &Waker) -> bool {
        let Some(first) = &self.first else { return false };
        first.will_wake(waker) || self.others.find(waker).is_some()
    }

    /// Removes and returns the waker that wakes the same task as `waker`.
    #[inline]
    pub fn remove(&mut self, waker: &Waker) -> Option<Waker> {
        if self.first.as_ref()?.will_wake(waker) { self.pop() } else { self.others.remove(waker) }
    }

    /// Removes the waker of a task that no longer waits, although the queue has not woken it: the task was
    /// polled for another reason and got what it waited for. Otherwise a later wake-up would be lost on this
    /// task instead of waking one that still waits.
    ///
    /// If the waker was in the queue, it is woken. Another future of the same task may still wait for the
    /// same event. It is then polled, and adds the waker again.
    #[inline]
    pub fn withdraw(&mut self, waker: &Waker) {
        if !self.is_empty()
            && let Some(waker) = self.remove(waker)
        {
            waker.wake();
        }
    }

    /// Removes and returns the first waker.
    #[inline]
    pub fn pop(&mut self) -> Option<Waker> {
        let first = self.first.take()?;
        self.first = self.others.pop();
        Some(first)
    }

    /// Removes and returns all wakers. The caller wakes them after it has released the lock of the queue.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> TakenWakers {
        if self.others.chunks.is_empty() {
            TakenWakers::First(self.first.take())
        } else {
            TakenWakers::All(core::mem::take(self))
        }
    }

    /// Wakes all, in the order of their arrival.
    #[inline]
    pub fn wake(mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            self.others.wake();
        }
    }
}

/// The wakers that a [`WakerQueue`] had.
#[derive(Debug)]
pub enum TakenWakers {
    /// The wakers of a queue that has not allocated memory: at most one. Most queues are of this kind, and
    /// moving them copies only two words.
    First(Option<Waker>),
    /// All wakers, with the memory of the queue.
    All(WakerQueue),
}

impl TakenWakers {
    /// Wakes all, in the order of their arrival.
    #[inline]
    pub fn wake(self) {
        match self {
            Self::First(first) => first.into_iter().for_each(Waker::wake),
            Self::All(queue) => queue.wake(),
        }
    }
}

/// A slot for a waker, and a bucket of the hash table.
#[derive(Debug)]
struct Slot {
    /// `None` if the slot is free.
    waker: Option<Waker>,
    /// The slot of the waker that arrived before this one.
    previous: u32,
    /// The slot of the waker that arrived after this one. In a free slot, the next free slot.
    next: u32,
    /// The next slot whose waker has the same bucket.
    next_in_bucket: u32,
    /// The first slot of the bucket that has the same index as this slot.
    bucket: u32,
}

/// Wakers in slots.
#[derive(Debug)]
struct LinkedWakers {
    /// Chunks of slots. All chunks except the last are full. Slots stay until the queue is dropped.
    chunks: Vec<Vec<Slot>>,
    first: u32,
    last: u32,
    free: u32,
}

impl Default for LinkedWakers {
    fn default() -> Self {
        Self::new()
    }
}

impl LinkedWakers {
    const fn new() -> Self {
        Self { chunks: Vec::new(), first: NONE, last: NONE, free: NONE }
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        let index = usize::try_from(index).ok()?;
        self.chunks.get(index / CHUNK_SIZE)?.get(index % CHUNK_SIZE)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        #[cfg(test)]
        tests::count_access();
        let index = usize::try_from(index).ok()?;
        self.chunks.get_mut(index / CHUNK_SIZE)?.get_mut(index % CHUNK_SIZE)
    }

    /// Number of wakers.
    fn len(&self) -> usize {
        let mut next = self.first;
        let mut len = 0;
        while let Some(slot) = self.slot(next) {
            (next, len) = (slot.next, len + 1);
        }
        len
    }

    /// Number of slots.
    fn count(&self) -> u32 {
        let Some(last) = self.chunks.last() else { return 0 };
        u32::try_from((self.chunks.len() - 1) * CHUNK_SIZE + last.len()).unwrap_or(NONE)
    }

    #[cold]
    fn add(&mut self, waker: &Waker) -> Result<(), TryReserveError> {
        if self.find(waker).is_some() {
            return Ok(());
        }
        if self.free == NONE {
            self.grow()?;
        }
        let (index, last) = (self.free, self.last);
        let Some(slot) = self.slot_mut(index) else { return Ok(()) };
        let free = core::mem::replace(&mut slot.next, NONE);
        slot.previous = last;
        slot.waker = Some(waker.clone());
        self.free = free;
        self.last = index;
        match self.slot_mut(last) {
            Some(last) => last.next = index,
            None => self.first = index,
        }
        self.enter(index, bucket_of(waker, self.count()));
        Ok(())
    }

    fn remove(&mut self, waker: &Waker) -> Option<Waker> {
        let index = self.find(waker)?;
        self.unlink(index)
    }

    #[inline]
    fn pop(&mut self) -> Option<Waker> {
        if self.first == NONE { None } else { self.unlink(self.first) }
    }

    fn wake(mut self) {
        let mut next = self.first;
        while let Some(slot) = self.slot_mut(next) {
            next = slot.next;
            slot.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Finds the slot of the waker that wakes the same task as `waker`.
    fn find(&self, waker: &Waker) -> Option<u32> {
        let mut index = self.slot(bucket_of(waker, self.count()))?.bucket;
        loop {
            #[cfg(test)]
            tests::count_access();
            let slot = self.slot(index)?;
            if slot.waker.as_ref().is_some_and(|other| other.will_wake(waker)) {
                return Some(index);
            }
            index = slot.next_in_bucket;
        }
    }

    /// Frees a slot and returns its waker.
    fn unlink(&mut self, index: u32) -> Option<Waker> {
        let bucket = bucket_of(self.slot(index)?.waker.as_ref()?, self.count());
        self.leave(index, bucket);
        let free = self.free;
        let slot = self.slot_mut(index)?;
        let waker = slot.waker.take();
        let (previous, next) = (slot.previous, core::mem::replace(&mut slot.next, free));
        self.free = index;
        match self.slot_mut(previous) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match self.slot_mut(next) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
        waker
    }

    /// Adds a free slot and a bucket.
    fn grow(&mut self) -> Result<(), TryReserveError> {
        let index = self.count();
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_SIZE) {
            let mut chunk = Vec::new();
            // The first chunk starts small, because few queues have more than a few wakers.
            chunk.try_reserve_exact(if self.chunks.is_empty() { 4 } else { CHUNK_SIZE })?;
            self.chunks.try_reserve(1)?;
            self.chunks.push(chunk);
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.try_reserve(1)?;
            chunk.push(Slot {
                waker: None,
                previous: NONE,
                next: self.free,
                next_in_bucket: NONE,
                bucket: NONE,
            });
            self.free = index;
        }
        self.split(index);
        Ok(())
    }

    /// Moves the slots that belong to the new, last bucket from their old bucket. All of them are in the same
    /// old bucket.
    fn split(&mut self, new: u32) {
        let count = new + 1;
        let old = new & ((count.next_power_of_two() - 1) >> 1);
        let mut next = self.slot(old).map_or(NONE, |slot| slot.bucket);
        while let Some(slot) = self.slot_mut(next) {
            let (index, waker) = (next, &slot.waker);
            let is_moved = waker.as_ref().is_some_and(|waker| bucket_of(waker, count) == new);
            next = slot.next_in_bucket;
            if is_moved {
                self.leave(index, old);
                self.enter(index, new);
            }
        }
    }

    /// Adds a slot to a bucket.
    fn enter(&mut self, index: u32, bucket: u32) {
        let Some(bucket) = self.slot_mut(bucket) else { return };
        let next = core::mem::replace(&mut bucket.bucket, index);
        if let Some(slot) = self.slot_mut(index) {
            slot.next_in_bucket = next;
        }
    }

    /// Removes a slot from its bucket.
    fn leave(&mut self, index: u32, bucket: u32) {
        let next = self.slot(index).map_or(NONE, |slot| slot.next_in_bucket);
        let Some(bucket) = self.slot_mut(bucket) else { return };
        if bucket.bucket == index {
            bucket.bucket = next;
            return;
        }
        let mut before = bucket.bucket;
        while let Some(slot) = self.slot_mut(before) {
            if slot.next_in_bucket == index {
                slot.next_in_bucket = next;
                return;
            }
            before = slot.next_in_bucket;
        }
    }
}

/// The bucket of a waker in a hash table of `count` buckets.
fn bucket_of(waker: &Waker, count: u32) -> u32 {
    // Fibonacci hashing, applied twice, so that the lower bits, too, depend on all bits of the address.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (waker.data().addr() as u64).wrapping_mul(FACTOR);
    let [_, _, _, _, hash @ ..] = (mixed ^ mixed >> 32).wrapping_mul(FACTOR).to_le_bytes();
    let mask = count.next_power_of_two() - 1;
    let bucket = u32::from_le_bytes(hash) & mask;
    if bucket < count { bucket } else { bucket & mask >> 1 }
}

#[cfg(test)]
mod tests;
