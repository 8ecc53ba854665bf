//! What several checks need.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What must happen, happens within this time, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How many CPUs std reports.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().expect("the number of CPUs is unknown").get()
}

/// Locks. A thread that panics ends the program, so no lock is ever poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks and waits while the condition holds.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    mutex: &'a Mutex<T>,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    changed.wait_while(lock(mutex), condition).unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` in so many threads at once, told which one it is, and waits for all.
pub(crate) fn in_threads(count: usize, work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| (0..count).for_each(|index| drop(scope.spawn(move || work(index)))));
}

/// Fails if what started then takes too long.
pub(crate) fn check_patience(start: Instant, what: &str) {
    assert!(start.elapsed() < PATIENCE, "{what}: still not after {:?}", start.elapsed());
}

/// Yields until the condition holds.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        check_patience(start, what);
        thread::yield_now();
    }
}

/// Numbers that look random; another seed gives others (Marsaglia's xorshift).
#[derive(Debug)]
pub(crate) struct Random(usize);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}
