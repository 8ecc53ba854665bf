//! Places for connections: so many at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many places are free.
#[derive(Debug)]
pub(crate) struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place that is given back at the end.
#[derive(Debug)]
pub(crate) struct Place<'a>(&'a Places);

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// Waits for a place and takes it.
    pub(crate) fn take(&self) -> Place<'_> {
        let free = self.freed.wait_while(self.lock(), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self)
    }

    /// Whether none is left.
    pub(crate) fn are_taken(&self) -> bool {
        *self.lock() == 0
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // A number is right whoever panicked.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::Places;

    #[test]
    fn who_comes_too_late_waits() {
        let places = Places::new(1);
        let place = places.take();
        assert!(places.are_taken());
        thread::scope(|scope| {
            let late = scope.spawn(|| drop(places.take()));
            thread::sleep(Duration::from_millis(20));
            assert!(!late.is_finished());
            drop(place);
        });
        assert!(!places.are_taken());
    }
}
