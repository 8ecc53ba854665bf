//! A lock that is held while its owner sleeps.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::task::Poll;

use hermit_io::Waiters as _;

use crate::threads::wait::block_on;
use crate::waiters::Waiters;

/// Nobody has it.
const FREE: u8 = 0;
/// Somebody has it.
const TAKEN: u8 = 1;
/// Somebody has it, and others may wait.
const WANTED: u8 = 2;

/// Lets one thread after the other do something that may have to wait.
#[derive(Debug)]
pub(crate) struct Turn {
    state: AtomicU8,
    waiters: Waiters,
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU8::new(FREE), waiters: Waiters::new() }
    }

    /// Does something when nobody else does.
    pub(crate) fn take<R>(&self, action: impl FnOnce() -> R) -> R {
        self.take_late(|_| action())
    }

    /// The same; `action` learns whether the thread had to wait. What woke it meanwhile may have been meant for something else
    /// that it waits for, and is spent.
    #[inline]
    pub(crate) fn take_late<R>(&self, action: impl FnOnce(bool) -> R) -> R {
        let is_late = self.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err();
        if is_late {
            self.wait();
        }
        let result = action(is_late);
        if self.state.swap(FREE, Release) == WANTED {
            self.waiters.wake();
        }
        result
    }

    /// Takes it when nobody else has it, and never leaves it.
    pub(crate) fn take_for_good(&self) {
        self.wait();
    }

    #[cold]
    fn wait(&self) {
        block_on(|context| {
            // Whoever leaves it after this will wake those who wait; whoever left it before has made it free.
            self.waiters.add(context);
            if self.state.swap(WANTED, AcqRel) == FREE { Poll::Ready(()) } else { Poll::Pending }
        });
    }
}
