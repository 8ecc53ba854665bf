//! A lock whose waiters sleep, and whose holder may sleep.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::task::Poll;

use hermit_hal::interrupts;
use hermit_io::WaitQueue as _;

use super::WaitQueue;
use crate::threads::schedule;
use crate::threads::wait::block_on;

/// The mutex is not held.
const UNLOCKED: u8 = 0;
/// The mutex is held, and no thread waits for it.
const LOCKED: u8 = 1;
/// The mutex is held, and threads may wait for it.
const CONTENDED: u8 = 2;

/// A sleeping mutex around operations rather than around data.
///
/// Unlocking wakes all waiters in the order of their arrival. The lock is not handed over: a thread that arrives before
/// the first of them runs may take it first.
///
/// A thread that locks it may sleep, so it must hold no spinlock, which is checked even if the mutex is free.
#[derive(Debug)]
pub(crate) struct Mutex {
    state: AtomicU8,
    waiters: WaitQueue,
}

impl Mutex {
    /// An unlocked mutex.
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU8::new(UNLOCKED), waiters: WaitQueue::new() }
    }

    /// Runs `action` with the mutex held.
    pub(crate) fn with<R>(&self, action: impl FnOnce() -> R) -> R {
        self.with_contention(|_| action())
    }

    /// Runs `action` with the mutex held; its argument says whether the thread slept to get the mutex.
    ///
    /// A thread has one wake-up token. One that was meant for something else that the thread waits for, and arrived
    /// during that sleep, is used up.
    #[inline]
    pub(crate) fn with_contention<R>(&self, action: impl FnOnce(bool) -> R) -> R {
        if !interrupts::are_unmasked() {
            assert_no_threads();
        }
        let has_slept = self.state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err();
        if has_slept {
            self.lock_contended();
        }
        let result = action(has_slept);
        if self.state.swap(UNLOCKED, Release) == CONTENDED {
            self.waiters.wake();
        }
        result
    }

    /// Locks the mutex and never unlocks it.
    pub(crate) fn lock_forever(&self) {
        self.lock_contended();
    }

    #[cold]
    fn lock_contended(&self) {
        block_on(|context| {
            // An unlock after the swap finds `CONTENDED` and wakes the queue, in which the thread is by then; after an
            // unlock before it, the swap finds `UNLOCKED`.
            self.waiters.add(context);
            if self.state.swap(CONTENDED, AcqRel) == UNLOCKED { Poll::Ready(()) } else { Poll::Pending }
        });
    }
}

/// Checks that there are no threads yet: before, interrupts are masked, and a mutex is always free.
///
/// # Panics
///
/// If there are: interrupts are masked because a spinlock is held, or an interrupt is being handled.
#[cold]
fn assert_no_threads() {
    assert!(schedule::try_current().is_none(), "a mutex is locked where a thread must not sleep");
}
