//! Calls that wait to read from an object. A change of the object wakes one of them.

use core::fmt::Debug;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_interface::Errno;

use crate::WaitQueue;

/// Wait queue of the calls that read from an object.
///
/// A write is for one reader, so it wakes one, as it wakes one exclusive waiter on Linux. If that reader
/// leaves something, it wakes the next one. Exclusive entries of epoll instances wait in the same queue.
/// Tasks that only poll the readiness wait elsewhere, and all of them are woken.
#[derive(Debug)]
pub(crate) struct ReadCalls<W>(W);

impl<W: WaitQueue> ReadCalls<W> {
    pub(crate) const fn new(queue: W) -> Self {
        Self(queue)
    }

    /// Polls a call. `read` returns its result, and true if there is more for others; `None` if it has
    /// to wait.
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
            // Again, as the object may have changed before the waker was registered.
            found = read();
            if found.is_none() {
                return Poll::Pending;
            }
        }
        // Also that of a poll before: the task was woken for another reason, and the next wake-up is for a
        // call that waits.
        let was_queued = self.0.remove(context);
        let Some((value, has_more)) = found else { return Poll::Ready(Err(Errno::EAGAIN)) };
        // A wake-up that came in between was for this call, which needed none.
        if has_more || (has_waited && !was_queued) {
            self.0.wake_one();
        }
        Poll::Ready(Ok(value))
    }

    /// Registers the waker of an exclusive entry, unless it is there.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        self.0.add(context);
    }

    /// Removes the waker of an exclusive entry.
    pub(crate) fn unwatch(&self, context: &Context<'_>) {
        self.0.remove(context);
    }

    /// Wakes the call that has waited longest, after something was written.
    pub(crate) fn wake_one(&self) {
        self.0.wake_one();
    }

    /// Wakes all calls, for which there is the end of the file.
    pub(crate) fn wake_all(&self) {
        self.0.wake();
    }
}

#[cfg(test)]
impl ReadCalls<crate::testing::FakeWaitQueue> {
    /// Number of calls that wait.
    pub(crate) fn count(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }
}
