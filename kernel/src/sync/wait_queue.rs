//! The queue of tasks that wait for an object of the kernel to change.

use core::task::Context;

use hermit_hal::sync::SpinLock;
use hermit_io::WakerQueue;

/// A wait queue: wakers in the order of their arrival, each only once. Its operations take constant time,
/// except [`hermit_io::WaitQueue::wake`], which wakes all waiters after it has released the lock.
#[derive(Debug)]
pub(crate) struct WaitQueue(SpinLock<WakerQueue>);

impl WaitQueue {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        Self(SpinLock::new(WakerQueue::new()))
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
        let added = self.0.lock().add(context.waker());
        if added.is_err() {
            // Without memory for the queue, the task polls again at once instead of waiting.
            context.waker().wake_by_ref();
        }
    }

    fn remove(&self, context: &Context<'_>) -> bool {
        let removed = self.0.lock().remove(context.waker());
        removed.is_some()
    }

    fn wake(&self) {
        let wakers = self.0.lock().take();
        wakers.wake();
    }

    fn wake_one(&self) {
        self.wake_one();
    }
}
