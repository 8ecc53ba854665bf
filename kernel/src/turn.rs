//! A lock that is held while its owner sleeps.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::task::Poll;

use hermit_io::Waiters as _;

use crate::threads::wait::block_on;
use crate::waiters::Waiters;

/// Lets one thread after the other do something that may have to wait.
#[derive(Debug)]
pub(crate) struct Turn {
    is_taken: AtomicBool,
    waiters: Waiters,
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), waiters: Waiters::new() }
    }

    /// Does something when nobody else does.
    pub(crate) fn take<R>(&self, action: impl FnOnce() -> R) -> R {
        block_on(|context| {
            if self.try_take() {
                return Poll::Ready(());
            }
            self.waiters.add(context);
            // It may have been left before it was known that somebody waits.
            if self.try_take() { Poll::Ready(()) } else { Poll::Pending }
        });
        let result = action();
        self.is_taken.store(false, Release);
        self.waiters.wake();
        result
    }

    fn try_take(&self) -> bool {
        !self.is_taken.swap(true, Acquire)
    }
}
