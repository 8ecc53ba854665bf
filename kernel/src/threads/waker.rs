//! The `Waker` of a thread.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

use super::schedule;
use super::thread::Thread;
use crate::fallible;

struct ThreadWaker(&'static Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        schedule::wake(self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        schedule::wake(self.0);
    }
}

/// A waker that wakes `thread`; `None` without memory.
pub(super) fn new(thread: &'static Thread) -> Option<Waker> {
    fallible::arc(ThreadWaker(thread)).map(Waker::from)
}
