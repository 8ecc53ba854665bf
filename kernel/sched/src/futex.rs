//! Futexes: a hash table of wait queues by address, each with a lock of its own.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::list::{List, Waiting};
use crate::sync::Lock;
use crate::thread::Thread;

/// Number of buckets of the hash table.
pub const BUCKETS: usize = 256;

/// Wait queue of the addresses that share a hash.
pub type Bucket<T> = List<T, Waiting>;

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
    /// are one atomic step with respect to [`Self::wake`]. Returns whether the thread was enqueued.
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
            bucket.push(thread);
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
                bucket.remove(thread);
                thread.entity().address.store(0, Relaxed);
            }
            is_waiting
        })
    }

    /// Removes at most `count` waiters for `address`, first come, first served, and calls `wake` with each. Returns
    /// their number.
    #[inline]
    pub fn wake<T: Thread>(&self, address: u64, count: usize, wake: impl FnMut(&'static T)) -> usize
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| wake_from(bucket, address, count, wake))
    }
}

fn wake_from<T: Thread>(
    bucket: &mut Bucket<T>,
    address: u64,
    count: usize,
    mut wake: impl FnMut(&'static T),
) -> usize {
    let mut woken = 0;
    let mut next = bucket.first();
    while let Some(thread) = next.filter(|_| woken < count) {
        let entity = thread.entity();
        next = entity.waiting.next.load();
        if entity.address.load(Relaxed) == address {
            bucket.remove(thread);
            // From here on the thread may run, and wait for another address.
            entity.address.store(0, Release);
            wake(thread);
            woken += 1;
        }
    }
    woken
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{BUCKETS, Bucket, FutexTable};
    use crate::testing::{TestThread, threads};
    use std::sync::Mutex;
    use std::vec::Vec;

    fn table() -> FutexTable<Mutex<Bucket<TestThread>>> {
        FutexTable::new([const { Mutex::new(Bucket::new()) }; BUCKETS])
    }

    #[test]
    fn wake_is_first_come_first_served() {
        let (table, all) = (table(), threads(4));
        for (thread, address) in all.iter().zip([8, 8, 16, 8]) {
            assert!(table.wait(address, thread, || true));
        }
        let mut woken = Vec::new();
        assert_eq!(table.wake(8, 2, |thread: &'static TestThread| woken.push(thread.number)), 2);
        assert_eq!(table.wake(8, usize::MAX, |thread: &'static TestThread| woken.push(thread.number)), 1);
        assert_eq!(woken, [0, 1, 3]);
        assert!(all[2].entity.is_waiting() && !all[0].entity.is_waiting());
    }

    #[test]
    fn wait_with_a_false_condition_does_not_enqueue() {
        let (table, all) = (table(), threads(1));
        assert!(!table.wait(8, all[0], || false));
        assert_eq!(table.wake(8, 1, |_: &'static TestThread| ()), 0);
    }

    #[test]
    fn cancelled_waiter_is_not_woken() {
        let (table, all) = (table(), threads(2));
        for thread in &all {
            table.wait(8, thread, || true);
        }
        assert!(table.cancel(8, all[0]));
        assert!(!table.cancel(8, all[0]));
        assert_eq!(table.wake(8, 2, |thread: &'static TestThread| assert_eq!(thread.number, 1)), 1);
        assert!(!table.cancel(8, all[1]));
    }
}
