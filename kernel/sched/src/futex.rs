//! Futexes: a hash table of wait queues by address, each with a lock of its own.
//!
//! A wake-up removes waiters under the lock, and makes them ready after it has released it. A thread whose address
//! is 0 is in no queue, and a wake-up has counted it: if it runs before it is made ready, because of a timeout, it
//! returns as one that was woken, and the wake-up that comes later is one that its next wait must expect.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::list::{List, Waiting};
use crate::sync::Lock;
use crate::thread::Thread;

/// Number of buckets of the hash table.
pub const BUCKETS: usize = 256;

/// Maximum number of waiters that a wake-up removes at a time under the lock of a bucket. The models have a wake-up
/// of two waiters take the lock twice.
const BATCH: usize = if cfg!(loom) { 1 } else { 16 };

/// Wait queue of the addresses that share a hash.
#[derive(Debug)]
pub struct Bucket<T: 'static> {
    waiters: List<T, Waiting>,
    /// Number of [`WakeUp`]s that have begun. A waiter keeps the value with which it was enqueued, so the values
    /// increase along the queue.
    epoch: u64,
}

impl<T> Bucket<T> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { waiters: List::new(), epoch: 0 }
    }
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A wake-up of several waiters of an address, in batches. It ends, also if woken threads wait again at once: only
/// threads that waited when it began are woken.
#[derive(Debug)]
pub struct WakeUp {
    address: u64,
    /// Number of waiters that are yet to be woken, at most.
    left: usize,
    /// Number of waiters that have been woken.
    woken: usize,
    /// Epoch of the bucket from which on waiters are too late; `None` before the first batch.
    epoch: Option<u64>,
}

impl WakeUp {
    /// A wake-up of at most `count` waiters for `address`.
    #[must_use]
    pub const fn new(address: u64, count: usize) -> Self {
        Self { address, left: count, woken: 0, epoch: None }
    }

    /// Number of waiters that have been woken.
    #[must_use]
    pub const fn woken(&self) -> usize {
        self.woken
    }
}

/// The waiting threads, by address. `L` is a lock around a [`Bucket`].
#[derive(Debug)]
pub struct FutexTable<L> {
    buckets: [L; BUCKETS],
}

impl<L> FutexTable<L> {
    /// Creates a table from locks around empty buckets.
    pub const fn new(buckets: [L; BUCKETS]) -> Self {
        Self { buckets }
    }
}

impl<L> FutexTable<L> {
    #[inline]
    fn bucket(&self, address: u64) -> &L {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the address.
        let hash = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
        &self.buckets[usize::from(hash)]
    }

    /// Enqueues `thread` as a waiter for `address`, which is not 0, if `must_wait` returns true. Check and enqueue
    /// are one atomic step with respect to [`Self::wake_one`]. Returns whether the thread was enqueued.
    #[inline]
    pub fn wait<T: Thread>(&self, address: u64, thread: &'static T, must_wait: impl FnOnce() -> bool) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| {
            if !must_wait() {
                return false;
            }
            thread.entity().address.store(address, Relaxed);
            thread.entity().wait_epoch.store(bucket.epoch, Relaxed);
            bucket.waiters.push(thread);
            true
        })
    }

    /// Removes a thread that stops waiting, for example on a timeout. `false` if it was woken in the meantime.
    pub fn cancel<T: Thread>(&self, address: u64, thread: &'static T) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| {
            let is_waiting = thread.entity().is_waiting();
            if is_waiting {
                bucket.waiters.remove(thread);
                thread.entity().address.store(0, Relaxed);
            }
            is_waiting
        })
    }

    /// Removes the first waiter for `address`, and then calls `wake` with it. Returns whether there was one.
    ///
    /// `wake` is called without the lock. Until then the thread may already have found that it waits no longer, run,
    /// and wait for another address, so `wake` may wake it spuriously.
    #[inline]
    pub fn wake_one<T: Thread>(&self, address: u64, wake: impl FnOnce(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.dequeue_first(address, |_| ()).map(|(thread, ())| wake(thread)).is_some()
    }

    /// [`Self::wake_one`], but returns whether there may be another waiter.
    #[inline]
    pub fn wake_next<T: Thread>(&self, address: u64, wake: impl FnOnce(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        let first = self.dequeue_first(address, |bucket| bucket.waiters.first().is_some());
        first.is_some_and(|(thread, has_others)| {
            wake(thread);
            has_others
        })
    }

    /// Removes the first waiter for `address`, if there is one, and then calls `inspect` under the lock.
    #[inline]
    fn dequeue_first<T: Thread, R>(
        &self,
        address: u64,
        inspect: impl FnOnce(&Bucket<T>) -> R,
    ) -> Option<(&'static T, R)>
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| {
            let first = bucket.waiters.first()?;
            // Mostly the address is the only one of its bucket.
            let thread = if first.entity().address.load(Relaxed) == address {
                bucket.waiters.pop();
                first.entity().address.store(0, Release);
                first
            } else {
                bucket.dequeue_later(address)?
            };
            Some((thread, inspect(bucket)))
        })
    }

    /// Removes the next waiters of a wake-up, first come, first served, and then calls `wake` with each, as
    /// [`Self::wake_one`] does. Returns whether there may be more. A caller that masks interrupts may unmask them
    /// between two batches.
    #[inline]
    pub fn wake_batch<T: Thread>(&self, wake_up: &mut WakeUp, wake: impl FnMut(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        let mut batch = heapless::Vec::<_, BATCH>::new();
        self.bucket(wake_up.address).with(|bucket| {
            let epoch = *wake_up.epoch.get_or_insert_with(|| bucket.begin_wake_up());
            let early = |thread: &&'static T| thread.entity().wait_epoch.load(Relaxed) < epoch;
            let waiters = bucket.waiters_for(wake_up.address).take_while(early);
            for thread in waiters.take(BATCH.min(wake_up.left)) {
                bucket.dequeue(thread);
                // There is room for `BATCH` waiters.
                let _: Result<(), _> = batch.push(thread);
            }
        });
        let is_full = batch.is_full();
        wake_up.left -= batch.len();
        wake_up.woken += batch.len();
        batch.iter().copied().for_each(wake);
        is_full && wake_up.left > 0
    }
}

impl<T: Thread> Bucket<T> {
    /// Begins a [`WakeUp`]: returns the epoch of threads that are enqueued from now on.
    const fn begin_wake_up(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// The waiters for `address`, in the order of the queue. One may be removed before the next is taken.
    #[inline]
    fn waiters_for(&self, address: u64) -> impl Iterator<Item = &'static T> + use<T> {
        self.waiters.iter().filter(move |thread| thread.entity().address.load(Relaxed) == address)
    }

    /// Removes the first waiter for `address`, which is not the first in the queue.
    #[cold]
    fn dequeue_later(&mut self, address: u64) -> Option<&'static T> {
        let thread = self.waiters_for(address).next()?;
        self.dequeue(thread);
        Some(thread)
    }

    /// Removes a waiter. From here on the thread may run, and wait for another address.
    #[inline]
    fn dequeue(&mut self, thread: &'static T) {
        self.waiters.remove(thread);
        thread.entity().address.store(0, Release);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{BATCH, BUCKETS, Bucket, FutexTable, WakeUp};
    use crate::sync::Lock;
    use crate::testing::{TestThread, threads};
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;
    use std::vec::Vec;

    /// A lock that panics if it is taken twice, and counts how often it was taken.
    #[derive(Default)]
    struct CheckedLock(Mutex<Bucket<TestThread>>, AtomicUsize);

    impl Lock<Bucket<TestThread>> for CheckedLock {
        fn with<R>(&self, action: impl FnOnce(&mut Bucket<TestThread>) -> R) -> R {
            self.1.fetch_add(1, Ordering::Relaxed);
            action(&mut self.0.try_lock().expect("the lock is free"))
        }
    }

    type Table = FutexTable<CheckedLock>;

    fn table() -> Table {
        FutexTable::new(core::array::from_fn::<_, BUCKETS, _>(|_| CheckedLock::default()))
    }

    /// Wakes up to `count` waiters, and returns their numbers.
    fn wake(table: &Table, address: u64, count: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        let mut wake_up = WakeUp::new(address, count);
        while table.wake_batch(&mut wake_up, |thread: &TestThread| numbers.push(thread.number)) {}
        assert_eq!(wake_up.woken(), numbers.len());
        numbers
    }

    #[test]
    fn wake_is_first_come_first_served() {
        let (table, all) = (table(), threads(5));
        for (thread, address) in all.iter().zip([8, 8, 16, 8, 8]) {
            assert!(table.wait(address, thread, || true));
        }
        assert_eq!(wake(&table, 8, 0), []);
        assert_eq!(wake(&table, 8, 2), [0, 1]);
        assert!(table.wake_one(8, |thread: &TestThread| assert_eq!(thread.number, 3)));
        assert_eq!(wake(&table, 8, usize::MAX), [4]);
        assert!(!table.wake_one(8, |_: &TestThread| unreachable!("no thread waits")));
        assert!(all[2].entity.is_waiting() && !all[0].entity.is_waiting());
    }

    #[test]
    fn wake_next_tells_when_no_waiter_is_left() {
        let (table, all) = (table(), threads(2));
        all.iter().for_each(|thread| assert!(table.wait(8, thread, || true)));
        assert!(table.wake_next(8, |thread: &TestThread| assert_eq!(thread.number, 0)));
        assert!(!table.wake_next(8, |thread: &TestThread| assert_eq!(thread.number, 1)));
        assert!(!table.wake_next(8, |_: &TestThread| unreachable!("no thread waits")));
        assert!(all.iter().all(|thread| !thread.entity.is_waiting()));
    }

    #[test]
    fn wait_with_a_false_condition_does_not_enqueue() {
        let (table, all) = (table(), threads(1));
        assert!(!table.wait(8, all[0], || false));
        assert_eq!(wake(&table, 8, 1), []);
    }

    #[test]
    fn cancelled_waiter_is_not_woken() {
        let (table, all) = (table(), threads(2));
        for thread in &all {
            table.wait(8, thread, || true);
        }
        assert!(table.cancel(8, all[0]));
        assert!(!table.cancel(8, all[0]));
        assert_eq!(wake(&table, 8, 2), [1]);
        assert!(!table.cancel(8, all[1]));
    }

    /// Each woken thread waits again at once, for which it takes the lock that the wake-up must have released.
    #[test]
    fn wake_up_ends_and_is_exact_if_woken_threads_wait_again() {
        const COUNT: usize = 2 * BATCH + 8;
        let (table, all) = (table(), threads(COUNT));
        all.iter().for_each(|thread| assert!(table.wait(8, thread, || true)));
        let locked = || table.bucket(8).1.load(Ordering::Relaxed);
        for count in [usize::MAX, COUNT] {
            let mut woken = Vec::new();
            let mut wake_up = WakeUp::new(8, count);
            let before = locked();
            while table.wake_batch(&mut wake_up, |thread: &'static TestThread| {
                woken.push(thread.number);
                assert!(table.wait(8, thread, || true));
            }) {}
            assert_eq!(wake_up.woken(), COUNT);
            assert!(woken.iter().copied().eq(0..COUNT));
            // Three batches, and each thread once.
            assert_eq!(locked() - before, 3 + COUNT);
        }
        assert_eq!(wake(&table, 8, usize::MAX).len(), COUNT);
    }
}
