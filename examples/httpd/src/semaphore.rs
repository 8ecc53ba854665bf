//! A counting semaphore, which limits the number of connections.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A counting semaphore.
#[derive(Debug)]
pub(crate) struct Semaphore {
    available: Mutex<usize>,
    released: Condvar,
}

/// A permit, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) fn new(count: usize) -> Self {
        Self { available: Mutex::new(count), released: Condvar::new() }
    }

    /// Waits for a permit and acquires it.
    pub(crate) fn acquire(&self) -> Permit<'_> {
        let available = self.released.wait_while(self.lock(), |available| *available == 0);
        *available.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }

    /// Returns true if no permit is available.
    pub(crate) fn is_exhausted(&self) -> bool {
        *self.lock() == 0
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // A panic while the lock is held leaves a valid count.
        self.available.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::Semaphore;

    #[test]
    fn acquire_waits_for_a_released_permit() {
        let semaphore = Semaphore::new(1);
        let permit = semaphore.acquire();
        assert!(semaphore.is_exhausted());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(semaphore.acquire()));
            thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            drop(permit);
        });
        assert!(!semaphore.is_exhausted());
    }
}
