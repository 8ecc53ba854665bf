//! Futexes: a hash table of wait queues by address, each with a lock of its own.
//!
//! Usually the waiters of a bucket all wait for the same address, and form a list. Waiters for further
//! addresses are in a tree. So the time for which the lock is held is short, however many threads wait.
//!
//! A wake-up removes waiters under the lock, sets their address to 0, and makes them ready after it has
//! released the lock. So a thread whose address is 0 is in no queue, and a wake-up has counted it. If such a
//! thread runs before it is made ready, because its timeout expired, it reports that it was woken. The late
//! wake-up then reaches its next wait as a spurious one.

use core::sync::atomic::Ordering::{Relaxed, Release};

use hermit_base::lock::Lock;
use hermit_base::sync::IS_MODEL;

use crate::list::{List, Waiting};
use crate::thread::Thread;
use crate::wait_tree::WaitTree;

/// Number of buckets of the hash table.
pub const BUCKETS: usize = 256;

/// Maximum number of waiters that a wake-up removes at a time under the lock of a bucket. It is 1 in the
/// models, so that a wake-up of two waiters takes the lock twice.
const BATCH: usize = if IS_MODEL { 1 } else { 16 };

/// Wait queue of the addresses that share a hash.
#[derive(Debug)]
pub struct Bucket<T: 'static> {
    /// Waiters for one address.
    waiters: List<T, Waiting>,
    /// Waiters for other addresses.
    others: WaitTree<T>,
    /// Number of [`WakeUp`]s that have begun. A waiter keeps the value that this had when the waiter was
    /// enqueued, so these values increase along the queue.
    epoch: u64,
}

impl<T> Bucket<T> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { waiters: List::new(), others: WaitTree::new(), epoch: 0 }
    }
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A wake-up of several waiters of an address, in batches. It wakes only threads that waited when it began.
/// So it ends even if woken threads wait again at once.
#[derive(Debug)]
pub struct WakeUp {
    address: u64,
    /// Maximum number of waiters that it will still wake.
    left: usize,
    /// Number of waiters that have been woken.
    woken: usize,
    /// Waiters that were enqueued in this epoch of the bucket or later are not woken. `None` before the first
    /// batch.
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

/// Hash of an address. Different futexes have different hashes, and the upper bits depend on all bits of the
/// address (Fibonacci hashing).
#[inline]
pub(crate) const fn hash(address: u64) -> u64 {
    (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<L> FutexTable<L> {
    #[inline]
    fn bucket(&self, address: u64) -> &L {
        &self.buckets[usize::from(hash(address).to_le_bytes()[7])]
    }

    /// Enqueues `thread` as a waiter for `address`, which is not 0, if `must_wait` returns true. Check and
    /// enqueue are one atomic step with respect to [`Self::wake_one`]. Returns true if the thread was
    /// enqueued.
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
            bucket.push(address, thread);
            true
        })
    }

    /// Removes a thread that stops waiting, for example on a timeout. Returns false if the thread was woken
    /// in the meantime.
    pub fn cancel<T: Thread>(&self, address: u64, thread: &'static T) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| {
            let is_waiting = thread.entity().is_waiting();
            if is_waiting {
                bucket.remove(address, thread);
                thread.entity().address.store(0, Relaxed);
            }
            is_waiting
        })
    }

    /// Removes the first waiter for `address`, and then calls `wake` with this waiter. Returns true if there
    /// was one.
    ///
    /// `wake` is called without the lock. Before that, the thread may already have noticed that it no longer
    /// waits, run on, and begun to wait for another address. So `wake` may wake it spuriously.
    #[inline]
    pub fn wake_one<T: Thread>(&self, address: u64, wake: impl FnOnce(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.dequeue_first(address, |_| ()).map(|(thread, ())| wake(thread)).is_some()
    }

    /// Does what [`Self::wake_one`] does, but returns true if there may be another waiter.
    #[inline]
    pub fn wake_next<T: Thread>(&self, address: u64, wake: impl FnOnce(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        let first = self.dequeue_first(address, Bucket::has_waiters);
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
            let thread = match bucket.waiters.first() {
                // The usual case: the bucket has waiters for this address only.
                Some(first) if first.entity().address.load(Relaxed) == address => {
                    bucket.waiters.pop();
                    first.entity().address.store(0, Release);
                    first
                }
                _ if bucket.others.is_empty() => return None,
                _ => bucket.dequeue_other(address)?,
            };
            Some((thread, inspect(bucket)))
        })
    }

    /// Removes the next waiters of a wake-up, first come, first served, and then calls `wake` with each, as
    /// [`Self::wake_one`] does. Returns true if there may be more waiters. A caller that masks interrupts may
    /// unmask them between two batches.
    #[inline]
    pub fn wake_batch<T: Thread>(&self, wake_up: &mut WakeUp, wake: impl FnMut(&'static T)) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        let mut batch = heapless::Vec::<_, BATCH>::new();
        self.bucket(wake_up.address).with(|bucket| {
            let epoch = *wake_up.epoch.get_or_insert_with(|| bucket.begin_wake_up());
            let early = core::iter::from_fn(|| bucket.dequeue_early(wake_up.address, epoch));
            // There is room for `BATCH` waiters.
            early.take(BATCH.min(wake_up.left)).for_each(|thread| _ = batch.push(thread));
        });
        let is_full = batch.is_full();
        wake_up.left -= batch.len();
        wake_up.woken += batch.len();
        batch.iter().copied().for_each(wake);
        is_full && wake_up.left > 0
    }
}

impl<T: Thread> Bucket<T> {
    /// Begins a [`WakeUp`]. Returns the epoch that threads get that are enqueued from now on.
    const fn begin_wake_up(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// True if the waiters for `address` are in the list. The waiters for an address are never in both the
    /// list and the tree.
    #[inline]
    fn is_listed(&self, address: u64) -> bool {
        self.waiters.first().is_some_and(|first| first.entity().address.load(Relaxed) == address)
    }

    fn has_waiters(&self) -> bool {
        !self.waiters.is_empty() || !self.others.is_empty()
    }

    /// Adds a waiter for `address`. The caller has set this address in the thread.
    #[inline]
    fn push(&mut self, address: u64, thread: &'static T) {
        let is_listed = match self.waiters.first() {
            None => self.others.is_empty(),
            Some(first) => first.entity().address.load(Relaxed) == address,
        };
        if is_listed { self.waiters.push(thread) } else { self.push_other(thread) }
    }

    #[cold]
    fn push_other(&mut self, thread: &'static T) {
        self.others.push(thread);
    }

    /// Removes the first waiter for `address`, if it was enqueued before an epoch. Once removed, the thread
    /// may run and wait for another address.
    #[inline]
    fn dequeue_early(&mut self, address: u64, epoch: u64) -> Option<&'static T> {
        let is_listed = self.is_listed(address);
        let first = if is_listed { self.waiters.first() } else { self.others.first(address) };
        let thread = first.filter(|thread| thread.entity().wait_epoch.load(Relaxed) < epoch)?;
        self.remove(address, thread);
        thread.entity().address.store(0, Release);
        Some(thread)
    }

    /// Removes a waiter for `address`, which is still set in the thread.
    #[inline]
    fn remove(&mut self, address: u64, thread: &'static T) {
        if self.is_listed(address) { self.waiters.remove(thread) } else { self.others.remove(thread) }
    }

    /// Removes the first waiter for `address` from the tree. Once removed, the thread may run and wait for
    /// another address.
    #[cold]
    fn dequeue_other(&mut self, address: u64) -> Option<&'static T> {
        let thread = self.others.first(address)?;
        self.others.remove(thread);
        thread.entity().address.store(0, Release);
        Some(thread)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{BATCH, BUCKETS, Bucket, FutexTable, WakeUp, hash};
    use crate::testing::{TestThread, threads};
    use crate::wait_tree::tests::STEPS;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use hermit_base::lock::Lock;
    use parking_lot::Mutex;
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

    /// Each woken thread waits again at once. For this it takes the lock, which the wake-up must have
    /// released.
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
            // Three batches, and one new wait of each thread.
            assert_eq!(locked() - before, 3 + COUNT);
        }
        assert_eq!(wake(&table, 8, usize::MAX).len(), COUNT);
    }

    /// Each thread waits for an address of its own, as in [`std::thread::park`]. Here all addresses share a
    /// bucket, and their hashes differ only in the last bits.
    #[test]
    fn wake_up_of_one_of_many_addresses_of_a_bucket_takes_few_steps() {
        const COUNT: usize = 2_000;
        // The inverse of the hash's factor, modulo 2^64.
        let inverse = (0..6).fold(1_u64, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(hash(4).wrapping_mul(inverse)))
        });
        // The hashes of multiples of the inverse are small. Of these multiples, those below 2^62 are
        // addresses divided by 4.
        let numbers = (0_u64..).map(|last| last.wrapping_mul(inverse)).filter(|number| number >> 62 == 0);
        let addresses: Vec<u64> = numbers.skip(1).map(|number| number << 2).take(COUNT).collect();
        let (table, all) = (table(), threads(COUNT));
        let steps_of = |action: &dyn Fn()| {
            let before = STEPS.get();
            action();
            STEPS.get() - before
        };
        for (thread, address) in all.iter().zip(&addresses) {
            assert_eq!(hash(*address) >> 56, 0);
            assert!(steps_of(&|| assert!(table.wait(*address, thread, || true))) <= 64);
        }
        let woken = |address, number| {
            assert!(table.wake_one(address, |thread: &TestThread| assert_eq!(thread.number, number)));
        };
        // The first address comes last, since its waiter is not in the tree.
        for (number, address) in addresses.iter().enumerate().rev() {
            let steps = steps_of(&|| match number % 3 {
                0 => woken(*address, number),
                1 => assert_eq!(wake(&table, *address, usize::MAX), [number]),
                _ => assert!(table.cancel(*address, all[number])),
            });
            assert!(steps <= 4 * 64, "{steps} steps");
        }
        assert!(all.iter().all(|thread| !thread.entity.is_waiting()));
    }
}
