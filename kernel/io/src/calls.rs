//! Calls that wait to read from an object. A write to the object wakes one of them.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_base::wait::WaitQueue;
use hermit_interface::Errno;
use lock_api::RawMutex;

/// Wait queue of the calls that read from an object.
///
/// A single reader can take all that a write has added, so a write wakes only one call, as it wakes one
/// exclusive waiter on Linux. If the woken call leaves something, it wakes the next call. Exclusive entries
/// of epoll instances wait in the same queue. Tasks that only poll the readiness wait in another queue, and
/// are all woken.
#[derive(Debug)]
pub(crate) struct ReadCalls<R: RawMutex>(WaitQueue<R>);

impl<R: RawMutex> ReadCalls<R> {
    pub(crate) const fn new() -> Self {
        Self(WaitQueue::new())
    }

    /// Polls a call. `read` returns the result of the call, and true if it has left something for other
    /// calls. It returns `None` if the call has to wait.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        nonblocking: &AtomicBool,
        mut read: impl FnMut() -> Option<(T, bool)>,
    ) -> Poll<Result<T, Errno>> {
        let mut found = read();
        let mut has_waited = false;
        if found.is_none() && !nonblocking.load(Relaxed) {
            self.0.add(context);
            has_waited = true;
            // Tries again, because the object may have changed before the waker was registered.
            found = read();
            if found.is_none() {
                return Poll::Pending;
            }
        }
        // Removes the waker even if an earlier poll has registered it. If the task was woken for another
        // reason, the waker is still in the queue, and the next wake-up must reach a call that still waits.
        let was_queued = self.0.remove(context);
        let Some((value, has_more)) = found else { return Poll::Ready(Err(Errno::EAGAIN)) };
        // If the waker is no longer in the queue, a write has woken this call, which did not need the
        // wake-up. So the wake-up is passed on.
        if has_more || (has_waited && !was_queued) {
            self.0.wake_one();
        }
        Poll::Ready(Ok(value))
    }

    /// Registers the waker of an exclusive entry, unless it is already registered.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        self.0.add(context);
    }

    /// Removes the waker of an exclusive entry.
    pub(crate) fn unwatch(&self, context: &Context<'_>) {
        self.0.remove(context);
    }

    /// Wakes the call that has waited longest. Called after a write.
    pub(crate) fn wake_one(&self) {
        self.0.wake_one();
    }

    /// Wakes all calls. Called at the end of the file, which all calls can read.
    pub(crate) fn wake_all(&self) {
        self.0.wake();
    }

    /// Number of calls that wait.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
