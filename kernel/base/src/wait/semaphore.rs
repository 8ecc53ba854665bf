//! A counting semaphore whose permits are handed over in the order of arrival.

use core::mem;
use core::task::{Poll, Waker};

use super::WakerQueue;

/// A counting semaphore for tasks, to be used under a lock.
///
/// If a permit is released while tasks wait, it immediately belongs to the task that has waited longest. So a
/// task that arrives before the woken task runs cannot overtake it. A release wakes one task, and takes
/// constant time.
///
/// A waiting task owns a permit as soon as it is woken. So it must continue to poll until it has acquired the
/// permit.
#[derive(Debug)]
pub struct Semaphore {
    /// Number of permits that no task owns. It is 0 while tasks wait.
    permits: usize,
    waiters: WakerQueue,
    is_closed: bool,
}

/// The state of a task that acquires one permit.
#[derive(Debug, Default)]
pub struct Acquisition {
    /// True if the task was added to the queue. If it is not in the queue any more, it owns a permit.
    is_queued: bool,
}

impl Semaphore {
    /// Creates a semaphore with a number of permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self { permits, waiters: WakerQueue::new(), is_closed: false }
    }

    /// Acquires a permit. The caller uses a new `acquisition` for each permit. While the result is pending,
    /// the waker is in the queue.
    ///
    /// Without memory for the queue, the waker is woken at once. Then the task polls again and again instead
    /// of waiting, and other tasks may overtake it, until there is memory.
    pub fn poll_acquire(&mut self, acquisition: &mut Acquisition, waker: &Waker) -> Poll<()> {
        if acquisition.is_queued {
            return if self.waiters.contains(waker) { Poll::Pending } else { Poll::Ready(()) };
        }
        if self.is_closed {
            return Poll::Ready(());
        }
        if let Some(rest) = self.permits.checked_sub(1) {
            self.permits = rest;
            return Poll::Ready(());
        }
        match self.waiters.add(waker) {
            Ok(()) => acquisition.is_queued = true,
            Err(_) => waker.wake_by_ref(),
        }
        Poll::Pending
    }

    /// Releases a permit, or adds a new one. If a task was waiting, the permit now belongs to it. Then
    /// returns the waker of this task. The caller wakes the task after it has released the lock.
    #[must_use = "the task owns the permit"]
    pub fn release(&mut self) -> Option<Waker> {
        let first = self.waiters.pop();
        self.permits += usize::from(first.is_none());
        first
    }

    /// Lets all tasks pass from now on. Called when the resource that the permits stand for has failed.
    /// Returns the wakers of the waiting tasks. The caller wakes them after it has released the lock.
    #[must_use = "the tasks wait"]
    pub fn close(&mut self) -> WakerQueue {
        self.is_closed = true;
        mem::take(&mut self.waiters)
    }
}

#[cfg(test)]
mod tests;
