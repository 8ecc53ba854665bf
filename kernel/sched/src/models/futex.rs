//! Waiting for an address: nobody is left waiting, and a wake-up goes to as many as it says.

use core::sync::atomic::Ordering::Relaxed;

use loom::sync::Mutex;
use loom::thread;

use super::{Actor, explore, leak};
use crate::futex::{BUCKETS, Bucket, Table};
use crate::sync::{AtomicBool, AtomicU32, Lock};

const ADDRESS: u64 = 8;

/// A lock for all lists: there is only one address.
#[derive(Clone, Copy)]
struct Shared(&'static Mutex<Bucket<Actor>>);

impl Lock<Bucket<Actor>> for Shared {
    fn with<R>(&self, action: impl FnOnce(&mut Bucket<Actor>) -> R) -> R {
        self.0.with(action)
    }
}

struct Futex {
    table: Table<Shared>,
    value: AtomicU32,
}

impl Futex {
    fn new() -> &'static Self {
        let lock = Shared(leak(Mutex::new(Bucket::new())));
        leak(Self { table: Table::new([lock; BUCKETS]), value: AtomicU32::new(0) })
    }

    /// Waits while the value is 0. Returns whether a wake-up was needed.
    fn wait(&self, actor: &'static Actor) -> bool {
        if !self.table.wait(ADDRESS, actor, || self.value.load(Relaxed) == 0) {
            return false;
        }
        while actor.entity.waits() {
            actor.park();
        }
        true
    }

    /// Waits, after [`Table::wait`], until it is too late. Returns whether it was woken.
    fn wait_until(&self, actor: &'static Actor, late: &AtomicBool) -> bool {
        while actor.entity.waits() {
            if late.load(Relaxed) {
                return !self.table.cancel(ADDRESS, actor);
            }
            actor.park();
        }
        true
    }

    fn wake(&self, count: usize) -> usize {
        self.table.wake(ADDRESS, count, Actor::wake)
    }
}

#[test]
fn a_changed_value_is_noticed() {
    explore(5, || {
        let futex = Futex::new();
        let waiter = thread::spawn(move || futex.wait(Actor::new(0)));
        futex.value.store(1, Relaxed);
        let woken = futex.wake(1);
        assert_eq!(woken, usize::from(waiter.join().unwrap()));
    });
}

#[test]
fn all_who_wait_are_woken() {
    explore(3, || {
        let futex = Futex::new();
        let waiters = [0, 1].map(|number| thread::spawn(move || futex.wait(Actor::new(number))));
        futex.value.store(1, Relaxed);
        let woken = futex.wake(usize::MAX);
        let waited = waiters.map(|waiter| usize::from(waiter.join().unwrap()));
        assert_eq!(woken, waited.iter().sum());
    });
}

#[test]
fn a_timeout_takes_no_wake_up_with_it() {
    explore(3, || {
        let futex = Futex::new();
        let (first, second) = (Actor::new(0), Actor::new(1));
        assert!(futex.table.wait(ADDRESS, first, || true));
        assert!(futex.table.wait(ADDRESS, second, || true));
        let late = leak(AtomicBool::new(false));
        thread::spawn(move || {
            late.store(true, Relaxed);
            first.wake();
        });
        let waker = thread::spawn(move || futex.wake(1));
        let first_woken = futex.wait_until(first, late);
        assert_eq!(waker.join().unwrap(), 1);
        // The wake-up went to exactly one of them; who was woken can go on.
        assert_ne!(first_woken, !second.entity.waits());
        assert_eq!(second.entity.park(), first_woken);
        assert_eq!(futex.wake(usize::MAX), usize::from(first_woken));
    });
}
