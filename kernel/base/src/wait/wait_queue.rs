//! A queue of tasks with a lock of its own.

use core::fmt;
use core::task::Context;

use lock_api::{Mutex, RawMutex};

use super::WakerQueue;

/// A wait queue: wakers in the order of their arrival, each only once, under a lock `R`, such as a spinlock.
///
/// Its operations take constant time, except [`Self::wake`], which wakes all tasks after it has released the
/// lock.
pub struct WaitQueue<R: RawMutex>(Mutex<R, WakerQueue>);

impl<R: RawMutex> WaitQueue<R> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::const_new(R::INIT, WakerQueue::new()))
    }

    /// Adds the waker of `context` for the next wake-up, unless the queue has it already.
    ///
    /// Without memory for the queue, the task is woken at once. Then it polls again and again instead of
    /// waiting, until there is memory.
    pub fn add(&self, context: &Context<'_>) {
        let added = self.0.lock().add(context.waker());
        if added.is_err() {
            context.waker().wake_by_ref();
        }
    }

    /// Removes the waker of `context`. Returns true if the queue had the waker, and false if a wake-up has
    /// taken it.
    pub fn remove(&self, context: &Context<'_>) -> bool {
        let removed = self.0.lock().remove(context.waker());
        removed.is_some()
    }

    /// Removes and wakes all tasks.
    pub fn wake(&self) {
        let wakers = self.0.lock().take();
        wakers.wake();
    }

    /// Removes and wakes the task that has waited longest.
    pub fn wake_one(&self) {
        let first = self.0.lock().pop();
        if let Some(first) = first {
            first.wake();
        }
    }

    /// Returns the number of waiting tasks. It takes time in proportion to the number.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns true if no task waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl<R: RawMutex> Default for WaitQueue<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RawMutex> fmt::Debug for WaitQueue<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::WaitQueue;
    use core::task::{Context, Waker};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::task::Wake;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn tasks_are_woken_in_the_order_of_their_arrival() {
        let tasks: [Arc<Task>; 3] = core::array::from_fn(|_| Arc::default());
        let wakers = tasks.each_ref().map(|task| Waker::from(Arc::clone(task)));
        let queue = WaitQueue::<parking_lot::RawMutex>::new();
        for waker in wakers.iter().chain(&wakers) {
            queue.add(&Context::from_waker(waker));
        }
        assert_eq!(queue.len(), 3);
        assert!(queue.remove(&Context::from_waker(&wakers[1])));
        assert!(!queue.remove(&Context::from_waker(&wakers[1])));
        let woken = || tasks.each_ref().map(|task| task.0.load(Relaxed));
        queue.wake_one();
        assert_eq!(woken(), [1, 0, 0]);
        queue.wake();
        assert_eq!((woken(), queue.is_empty()), ([1, 0, 1], true));
    }
}
