//! Futexes: no waiter is left behind, and a wake-up wakes exactly the number of threads that it reports.

use core::sync::atomic::Ordering::Relaxed;

use hermit_base::lock::Lock;
use hermit_base::sync::atomic::{AtomicBool, AtomicU32};
use loom::sync::Mutex;
use loom::thread::spawn;

use super::{ModelThread, explore, leak};
use crate::futex::{BUCKETS, Bucket, FutexTable, WakeUp};

const ADDRESS: u64 = 8;
const OTHER_ADDRESS: u64 = 16;

/// One lock for all buckets: two addresses share a bucket.
#[derive(Clone, Copy)]
struct SharedBucket(&'static Mutex<Bucket<ModelThread>>);

impl Lock<Bucket<ModelThread>> for SharedBucket {
    fn with<R>(&self, action: impl FnOnce(&mut Bucket<ModelThread>) -> R) -> R {
        self.0.with(action)
    }
}

pub(super) struct Futex {
    table: FutexTable<SharedBucket>,
    pub(super) value: AtomicU32,
}

impl Futex {
    pub(super) fn new() -> &'static Self {
        let lock = SharedBucket(leak(Mutex::new(Bucket::new())));
        leak(Self { table: FutexTable::new([lock; BUCKETS]), value: AtomicU32::new(0) })
    }

    /// Waits while the value is 0. Returns true if the thread had to be woken.
    fn wait(&self, thread: &'static ModelThread) -> bool {
        self.wait_while(thread, || self.value.load(Relaxed) == 0)
    }

    /// If `must_wait` returns true, waits until the thread is woken. Returns true if the thread had to be
    /// woken.
    pub(super) fn wait_while(&self, thread: &'static ModelThread, must_wait: impl FnOnce() -> bool) -> bool {
        if !self.table.wait(ADDRESS, thread, must_wait) {
            return false;
        }
        while thread.entity.is_waiting() {
            thread.park();
        }
        true
    }

    /// Waits until the timeout, after [`FutexTable::wait`]. Returns true if the thread was woken.
    fn wait_until(&self, thread: &'static ModelThread, timed_out: &AtomicBool) -> bool {
        while thread.entity.is_waiting() {
            if timed_out.load(Relaxed) {
                return !self.table.cancel(ADDRESS, thread);
            }
            thread.park();
        }
        true
    }

    fn wake_one(&self, address: u64) -> bool {
        self.table.wake_one(address, ModelThread::wake)
    }

    pub(super) fn wake_next(&self) -> bool {
        self.wake_one(ADDRESS)
    }

    /// Wakes all waiters, in batches of one.
    fn wake_all(&self) -> usize {
        let mut wake_up = WakeUp::new(ADDRESS, usize::MAX);
        while self.table.wake_batch(&mut wake_up, ModelThread::wake) {}
        wake_up.woken()
    }
}

#[test]
fn value_change_before_the_wait_is_noticed() {
    explore(5, || {
        let futex = Futex::new();
        let waiter = spawn(move || futex.wait(ModelThread::new(0)));
        futex.value.store(1, Relaxed);
        let woken = futex.wake_one(ADDRESS);
        assert_eq!(woken, waiter.join().unwrap());
    });
}

#[test]
fn wake_all_wakes_all_waiters() {
    explore(3, || {
        let futex = Futex::new();
        let waiters = [0, 1].map(|number| spawn(move || futex.wait(ModelThread::new(number))));
        futex.value.store(1, Relaxed);
        let woken = futex.wake_all();
        let waited = waiters.map(|waiter| usize::from(waiter.join().unwrap()));
        assert_eq!(woken, waited.iter().sum());
    });
}

#[test]
fn timeout_does_not_consume_a_wake_up() {
    explore(3, || {
        let futex = Futex::new();
        let (first, second) = (ModelThread::new(0), ModelThread::new(1));
        assert!(futex.table.wait(ADDRESS, first, || true));
        assert!(futex.table.wait(ADDRESS, second, || true));
        let timed_out = leak(AtomicBool::new(false));
        spawn(move || {
            timed_out.store(true, Relaxed);
            first.wake();
        });
        let waker = spawn(move || futex.wake_one(ADDRESS));
        let first_woken = futex.wait_until(first, timed_out);
        assert!(waker.join().unwrap());
        // The wake-up went to exactly one of the two threads. A woken thread has its park token set.
        assert_ne!(first_woken, !second.entity.is_waiting());
        assert_eq!(second.entity.park(), first_woken);
        assert_eq!(futex.wake_all(), usize::from(first_woken));
    });
}

/// Both threads wait when the wake-up begins. The first thread waits again as soon as it is out of the queue.
/// This may happen before it is made ready, and between the batches.
#[test]
fn wake_all_is_exact_if_a_woken_thread_waits_again() {
    explore(3, || {
        let futex = Futex::new();
        let threads = [0, 1].map(ModelThread::new);
        for thread in threads {
            assert!(futex.table.wait(ADDRESS, thread, || true));
        }
        let waker = spawn(move || futex.wake_all());
        let again = spawn(move || {
            while threads[0].entity.is_waiting() {
                threads[0].park();
            }
            assert!(futex.table.wait(ADDRESS, threads[0], || true));
        });
        while threads[1].entity.is_waiting() {
            threads[1].park();
        }
        again.join().unwrap();
        assert_eq!(waker.join().unwrap(), 2);
        assert!(threads[0].entity.is_waiting());
        assert_eq!(futex.wake_all(), 1);
    });
}

/// The timeout of a thread expires when a wake-up has removed the thread but not made it ready yet. The
/// thread then waits for another address. The late wake-up does not end that wait, and the wake-up that ends
/// it is not lost.
#[test]
fn late_wake_up_does_not_end_the_next_wait() {
    explore(3, || {
        let futex = Futex::new();
        let thread = ModelThread::new(0);
        assert!(futex.table.wait(ADDRESS, thread, || true));
        let waker = spawn(move || futex.wake_one(ADDRESS));
        let next_waker = spawn(move || {
            futex.value.store(1, Relaxed);
            futex.wake_one(OTHER_ADDRESS)
        });
        let cancelled = futex.table.cancel(ADDRESS, thread);
        let mut waited_again = false;
        if futex.table.wait(OTHER_ADDRESS, thread, || futex.value.load(Relaxed) == 0) {
            while thread.entity.is_waiting() {
                thread.park();
            }
            waited_again = true;
        }
        assert_ne!(waker.join().unwrap(), cancelled);
        assert_eq!(next_waker.join().unwrap(), waited_again);
    });
}
