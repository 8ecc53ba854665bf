//! An asynchronous mutex. A call may hold it while a request to a file system is pending, which is not
//! allowed with a spinlock.

use core::task::{Context, Poll, Waker};

use hermit_base::try_alloc::TryBox;
use hermit_base::wait::WakerQueue;
use hermit_interface::Errno;

/// An asynchronous mutex. The user protects the value of this type with a spinlock, and holds that only for
/// the duration of each method.
///
/// An unlock wakes the first waiting call. The woken call polls again, and locks the mutex unless another
/// call has locked it first. So an unlock wakes one call, not all waiting calls.
#[derive(Debug)]
pub(crate) struct AsyncMutex {
    is_locked: bool,
    /// `None` while no call waits, so that dropping most mutexes frees nothing.
    waiters: Option<TryBox<WakerQueue>>,
}

/// Work that an unlock leaves to its caller, which must do it after it has released the spinlock.
#[derive(Debug, Default)]
#[must_use = "the next call waits until it is woken"]
pub(crate) struct Unlocked {
    next: Option<Waker>,
    /// The empty queue, which the caller frees.
    emptied: Option<TryBox<WakerQueue>>,
}

impl Unlocked {
    /// Wakes the next waiting call, and frees the queue if no other call waits.
    #[inline]
    pub(crate) fn wake(self) {
        drop(self.emptied);
        self.next.into_iter().for_each(Waker::wake);
    }
}

impl AsyncMutex {
    pub(crate) const fn new() -> Self {
        Self { is_locked: false, waiters: None }
    }

    /// True if a call has locked the mutex.
    #[inline]
    pub(crate) const fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Locks the mutex. If another call holds the mutex, adds the waker to the queue and returns `Pending`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub(crate) fn poll_lock(&mut self, context: &Context<'_>) -> Poll<Result<(), Errno>> {
        if self.is_locked {
            return self.wait(context).map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending);
        }
        self.is_locked = true;
        if let Some(waiters) = &mut self.waiters {
            waiters.withdraw(context.waker());
        }
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn wait(&mut self, context: &Context<'_>) -> Result<(), Errno> {
        let waiters = match &mut self.waiters {
            Some(waiters) => waiters,
            none => none.insert(TryBox::try_new(WakerQueue::new())?),
        };
        waiters.add(context.waker()).map_err(|_| Errno::ENOMEM)
    }

    /// Unlocks the mutex.
    #[inline]
    pub(crate) fn unlock(&mut self) -> Unlocked {
        self.is_locked = false;
        if self.waiters.is_none() { Unlocked::default() } else { self.next() }
    }

    #[cold]
    fn next(&mut self) -> Unlocked {
        let Some(waiters) = self.waiters.as_deref_mut() else { return Unlocked::default() };
        let next = waiters.pop();
        let emptied = if waiters.is_empty() { self.waiters.take() } else { None };
        Unlocked { next, emptied }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::AsyncMutex;
    use crate::testing::{WakeCount, wake_count};
    use core::task::{Context, Waker};
    use std::vec::Vec;

    /// Polls the mutex. Returns true if the call now holds it.
    fn lock(mutex: &mut AsyncMutex, waker: &Waker) -> bool {
        mutex.poll_lock(&Context::from_waker(waker)).map(Result::unwrap).is_ready()
    }

    #[test]
    fn unlock_wakes_one_of_a_thousand_calls() {
        let mut mutex = AsyncMutex::new();
        assert!(lock(&mut mutex, Waker::noop()));
        let calls: Vec<(WakeCount, Waker)> = (0..1000).map(|_| wake_count()).collect();
        assert!(calls.iter().all(|(_, waker)| !lock(&mut mutex, waker)));
        for (index, (_, waker)) in calls.iter().enumerate() {
            mutex.unlock().wake();
            let woken = calls.iter().map(|(count, _)| count.get()).sum::<usize>();
            assert_eq!(woken, index + 1);
            assert!(lock(&mut mutex, waker));
        }
        mutex.unlock().wake();
        assert!(calls.iter().all(|(count, _)| count.get() == 1) && mutex.waiters.is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn call_that_is_polled_often_has_one_waker_in_the_queue() {
        let mut mutex = AsyncMutex::new();
        assert!(lock(&mut mutex, Waker::noop()));
        let (first, second) = (wake_count(), wake_count());
        assert!((0..100).all(|_| !lock(&mut mutex, &first.1)));
        assert!(!lock(&mut mutex, &second.1));
        mutex.unlock().wake();
        assert!(lock(&mut mutex, &first.1));
        mutex.unlock().wake();
        assert_eq!((first.0.get(), second.0.get()), (1, 1));
    }

    /// The unlock has woken the first waiter, but the second one polls first and locks the mutex. It must
    /// then leave the queue.
    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn call_that_locks_without_having_been_woken_leaves_the_queue() {
        let mut mutex = AsyncMutex::new();
        assert!(lock(&mut mutex, Waker::noop()));
        let [first, second, third] = [(); 3].map(|()| wake_count());
        for (_, waker) in [&first, &second, &third] {
            assert!(!lock(&mut mutex, waker));
        }
        mutex.unlock().wake();
        assert!(lock(&mut mutex, &second.1));
        // Leaving the queue wakes the task, since another future of the same task may wait for the mutex,
        // too.
        assert_eq!(second.0.get(), 1);
        assert!(!lock(&mut mutex, &first.1));
        mutex.unlock().wake();
        assert_eq!((first.0.get(), second.0.get(), third.0.get()), (1, 1, 1));
    }
}
