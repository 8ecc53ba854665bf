//! Who waits for which address: a hash table of lists, with a lock for each.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::list::{List, Waiting};
use crate::sync::Lock;
use crate::thread::Thread;

/// How many lists there are.
pub const BUCKETS: usize = 256;

/// The threads that wait for the addresses that share a list.
pub type Bucket<T> = List<T, Waiting>;

/// The threads that wait, by address.
#[derive(Debug)]
pub struct Table<L> {
    buckets: [L; BUCKETS],
}

impl<L> Table<L> {
    /// Nobody waits: the locks hold empty lists.
    pub const fn new(buckets: [L; BUCKETS]) -> Self {
        Self { buckets }
    }
}

impl<L> Table<L> {
    #[inline]
    fn bucket(&self, address: u64) -> &L {
        // Fibonacci hashing: the upper bits of the product depend on all bits of the address.
        let hash = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
        &self.buckets[usize::from(hash)]
    }

    /// Notes that `thread` waits for `address`, which is not 0, if `must_wait` says so. Asking and noting are one step
    /// for whoever calls [`Self::wake`]. Returns whether it waits.
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

    /// A thread gives up waiting. `false` if it was woken in the meantime.
    pub fn cancel<T: Thread>(&self, address: u64, thread: &'static T) -> bool
    where
        L: Lock<Bucket<T>>,
    {
        self.bucket(address).with(|bucket| {
            let waits = thread.entity().waits();
            if waits {
                bucket.remove(thread);
                thread.entity().address.store(0, Relaxed);
            }
            waits
        })
    }

    /// Hands at most `count` of the threads that wait for `address`, in the order in which they came, to `wake`, and
    /// returns how many.
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
            // From here on the thread may go on, and wait for something else.
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

    use super::{BUCKETS, Bucket, Table};
    use crate::testing::{Simple, threads};
    use std::sync::Mutex;
    use std::vec::Vec;

    fn table() -> Table<Mutex<Bucket<Simple>>> {
        Table::new([const { Mutex::new(Bucket::new()) }; BUCKETS])
    }

    #[test]
    fn the_first_to_wait_is_the_first_to_be_woken() {
        let (table, all) = (table(), threads(4));
        for (thread, address) in all.iter().zip([8, 8, 16, 8]) {
            assert!(table.wait(address, thread, || true));
        }
        let mut woken = Vec::new();
        assert_eq!(table.wake(8, 2, |thread: &'static Simple| woken.push(thread.number)), 2);
        assert_eq!(table.wake(8, usize::MAX, |thread: &'static Simple| woken.push(thread.number)), 1);
        assert_eq!(woken, [0, 1, 3]);
        assert!(all[2].entity.waits() && !all[0].entity.waits());
    }

    #[test]
    fn a_changed_value_is_not_waited_for() {
        let (table, all) = (table(), threads(1));
        assert!(!table.wait(8, all[0], || false));
        assert_eq!(table.wake(8, 1, |_: &'static Simple| ()), 0);
    }

    #[test]
    fn who_gives_up_is_not_woken() {
        let (table, all) = (table(), threads(2));
        for thread in &all {
            table.wait(8, thread, || true);
        }
        assert!(table.cancel(8, all[0]));
        assert!(!table.cancel(8, all[0]));
        assert_eq!(table.wake(8, 2, |thread: &'static Simple| assert_eq!(thread.number, 1)), 1);
        assert!(!table.cancel(8, all[1]));
    }
}
