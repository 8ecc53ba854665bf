//! A counting semaphore whose permits are handed over in the order of arrival.

use core::mem;
use core::task::{Poll, Waker};

use crate::WakerQueue;

/// A counting semaphore for tasks, to be used under a lock.
///
/// A permit that is released while tasks wait belongs to the one that has waited longest, from the release
/// on: a task that arrives before that one runs cannot overtake it. A release wakes one task, and takes
/// constant time.
///
/// A task that waits owns a permit as soon as it is woken, so it must go on polling until it has got it.
#[derive(Debug)]
pub struct Semaphore {
    /// Number of permits that no task has; 0 while tasks wait.
    permits: usize,
    waiters: WakerQueue,
    is_closed: bool,
}

/// The state of a task that acquires one permit.
#[derive(Debug, Default)]
pub struct Acquisition {
    /// True if the task has waited in the queue. If it is not there any more, a permit has been passed to it.
    is_queued: bool,
}

impl Semaphore {
    /// Creates a semaphore with a number of permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self { permits, waiters: WakerQueue::new(), is_closed: false }
    }

    /// Acquires a permit, once for each `acquisition`. While it is pending, the waker is in the queue.
    ///
    /// Without memory for the queue, the waker is woken at once: the task polls again instead of waiting, and
    /// others may overtake it until there is memory.
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

    /// Releases a permit, or adds one. Returns the waker of the task that it now belongs to, to be woken
    /// without the lock.
    #[must_use = "the task owns the permit"]
    pub fn release(&mut self) -> Option<Waker> {
        let first = self.waiters.pop();
        self.permits += usize::from(first.is_none());
        first
    }

    /// Lets all tasks pass from now on, since what the permits stand for has failed. Returns the wakers of
    /// those that wait, to be woken without the lock.
    #[must_use = "the tasks wait"]
    pub fn close(&mut self) -> WakerQueue {
        self.is_closed = true;
        mem::take(&mut self.waiters)
    }
}

#[cfg(test)]
mod tests;
