//! Futexes: no waiter is left behind, and a wake-up wakes exactly the number of threads that it reports.

use core::sync::atomic::Ordering::Relaxed;

use loom::sync::Mutex;
use loom::thread::spawn;

use super::{ModelThread, explore, leak};
use crate::futex::{BUCKETS, Bucket, FutexTable};
use crate::sync::{AtomicBool, AtomicU32, Lock};

const ADDRESS: u64 = 8;

/// One lock for all buckets: there is only one address.
#[derive(Clone, Copy)]
struct SharedBucket(&'static Mutex<Bucket<ModelThread>>);

impl Lock<Bucket<ModelThread>> for SharedBucket {
    fn with<R>(&self, action: impl FnOnce(&mut Bucket<ModelThread>) -> R) -> R {
        self.0.with(action)
    }
}

struct Futex {
    table: FutexTable<SharedBucket>,
    value: AtomicU32,
}

impl Futex {
    fn new() -> &'static Self {
        let lock = SharedBucket(leak(Mutex::new(Bucket::new())));
        leak(Self { table: FutexTable::new([lock; BUCKETS]), value: AtomicU32::new(0) })
    }

    /// Waits while the value is 0. Returns whether the thread had to be woken.
    fn wait(&self, thread: &'static ModelThread) -> bool {
        if !self.table.wait(ADDRESS, thread, || self.value.load(Relaxed) == 0) {
            return false;
        }
        while thread.entity.is_waiting() {
            thread.park();
        }
        true
    }

    /// Waits, after [`FutexTable::wait`], until the timeout. Returns whether the thread was woken.
    fn wait_until(&self, thread: &'static ModelThread, timed_out: &AtomicBool) -> bool {
        while thread.entity.is_waiting() {
            if timed_out.load(Relaxed) {
                return !self.table.cancel(ADDRESS, thread);
            }
            thread.park();
        }
        true
    }

    fn wake(&self, count: usize) -> usize {
        self.table.wake(ADDRESS, count, ModelThread::wake)
    }
}

#[test]
fn value_change_before_the_wait_is_noticed() {
    explore(5, || {
        let futex = Futex::new();
        let waiter = spawn(move || futex.wait(ModelThread::new(0)));
        futex.value.store(1, Relaxed);
        let woken = futex.wake(1);
        assert_eq!(woken, usize::from(waiter.join().unwrap()));
    });
}

#[test]
fn wake_all_wakes_all_waiters() {
    explore(3, || {
        let futex = Futex::new();
        let waiters = [0, 1].map(|number| spawn(move || futex.wait(ModelThread::new(number))));
        futex.value.store(1, Relaxed);
        let woken = futex.wake(usize::MAX);
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
        let waker = spawn(move || futex.wake(1));
        let first_woken = futex.wait_until(first, timed_out);
        assert_eq!(waker.join().unwrap(), 1);
        // The wake-up went to exactly one of them; a woken thread has its park token.
        assert_ne!(first_woken, !second.entity.is_waiting());
        assert_eq!(second.entity.park(), first_woken);
        assert_eq!(futex.wake(usize::MAX), usize::from(first_woken));
    });
}
