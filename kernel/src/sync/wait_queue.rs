//! The queue of tasks that wait for an object of the kernel to change.

use alloc::vec::Vec;
use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

/// A wait queue: wakers in the order of their arrival, each once.
#[derive(Debug)]
pub(crate) struct WaitQueue(SpinLock<Wakers>);

/// The wakers of a queue. The first is stored in place, since most queues have one at a time: it needs no memory.
#[derive(Debug)]
struct Wakers {
    /// `None` only if `others` is empty.
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    fn pop(&mut self) -> Option<Waker> {
        let next = (!self.others.is_empty()).then(|| self.others.remove(0));
        core::mem::replace(&mut self.first, next)
    }
}

impl WaitQueue {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        Self(SpinLock::new(Wakers { first: None, others: Vec::new() }))
    }

    /// Removes the waker of the polling task.
    pub(crate) fn remove(&self, context: &Context<'_>) {
        let is_other = |waker: &Waker| !waker.will_wake(context.waker());
        let mut wakers = self.0.lock();
        let is_first = wakers.first.as_ref().is_some_and(|waker| !is_other(waker));
        let removed = if is_first { wakers.pop() } else { None };
        wakers.others.retain(is_other);
        drop(wakers);
        drop(removed);
    }

    /// Removes the waker that has waited longest, and wakes it.
    pub(crate) fn wake_one(&self) {
        let first = self.0.lock().pop();
        if let Some(first) = first {
            first.wake();
        }
    }
}

impl hermit_io::WaitQueue for WaitQueue {
    fn add(&self, context: &Context<'_>) {
        let mut wakers = self.0.lock();
        let is_queued = |waker: &Waker| waker.will_wake(context.waker());
        if wakers.first.as_ref().is_some_and(is_queued) || wakers.others.iter().any(is_queued) {
            return;
        }
        if wakers.first.is_none() {
            wakers.first = Some(context.waker().clone());
        } else if wakers.others.try_reserve(1).is_ok() {
            wakers.others.push(context.waker().clone());
        } else {
            // Without memory for the queue the task polls again at once instead of waiting.
            context.waker().wake_by_ref();
        }
    }

    fn wake(&self) {
        let mut wakers = self.0.lock();
        let (first, others) = (wakers.first.take(), core::mem::take(&mut wakers.others));
        drop(wakers);
        first.into_iter().chain(others).for_each(Waker::wake);
    }
}
