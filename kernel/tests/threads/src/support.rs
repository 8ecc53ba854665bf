//! Helper functions of the checks.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for anything that must happen, even on a busy host.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(150);

/// Number of CPUs that std reports.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().expect("the number of CPUs is unknown").get()
}

/// Locks a mutex. It is never poisoned: a panic in any thread exits the program.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, and waits on `changed` while the condition holds.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    mutex: &'a Mutex<T>,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    changed.wait_while(lock(mutex), condition).unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` in `count` threads at once, with the thread's index, and waits for all of them.
pub(crate) fn in_threads(count: usize, work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| (0..count).for_each(|index| drop(scope.spawn(move || work(index)))));
}

/// Panics if [`TIMEOUT`] has passed since `start`.
pub(crate) fn check_timeout(start: Instant, what: &str) {
    assert!(start.elapsed() < TIMEOUT, "{what}: still not after {:?}", start.elapsed());
}

/// Yields until the condition holds; panics after [`TIMEOUT`].
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        check_timeout(start, what);
        thread::yield_now();
    }
}

/// Pseudo-random numbers (Marsaglia's xorshift).
#[derive(Debug)]
pub(crate) struct Random(usize);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}
