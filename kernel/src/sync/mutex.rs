//! A lock whose waiters sleep, and whose holder may sleep.

use core::sync::atomic::AtomicU32;

use hermit_hal::interrupts;
use hermit_interface::Errno;
use hermit_sched::mutex::{UNLOCKED, lock_contended, try_lock, unlock};

use crate::threads::{futex, schedule};

/// A sleeping mutex that protects operations rather than data.
///
/// Unlocking wakes the thread that has waited longest, but does not hand the lock over to it: another thread
/// may take the lock before the woken thread runs.
///
/// A thread that locks the mutex may sleep, so it must not hold a spinlock. This is checked even if the mutex
/// is free.
#[derive(Debug)]
pub(crate) struct Mutex(AtomicU32);

impl Mutex {
    /// An unlocked mutex.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(UNLOCKED))
    }

    /// Runs `action` with the mutex held.
    #[inline]
    pub(crate) fn with<R>(&self, action: impl FnOnce() -> R) -> R {
        if !interrupts::are_unmasked() {
            assert_no_threads();
        }
        if !try_lock(&self.0) {
            self.lock_contended();
        }
        self.run_locked(action)
    }

    /// Runs `action` with the mutex held, if it is free.
    pub(crate) fn try_with<R>(&self, action: impl FnOnce() -> R) -> Option<R> {
        try_lock(&self.0).then(|| self.run_locked(action))
    }

    /// Runs `action` and then unlocks the mutex. The caller has locked it.
    #[inline]
    fn run_locked<R>(&self, action: impl FnOnce() -> R) -> R {
        let result = action();
        if unlock(&self.0) {
            futex::wake_next(&self.0);
        }
        result
    }

    /// Locks the mutex and never unlocks it.
    pub(crate) fn lock_forever(&self) {
        self.lock_contended();
    }

    #[cold]
    fn lock_contended(&self) {
        lock_contended(&self.0, |value| {
            schedule::count_sleep();
            // `EAGAIN` means that the value has already changed.
            let _: Result<(), Errno> = futex::wait(&self.0, value, None);
        });
    }
}

/// Checks that there are no threads yet. Before the first thread, interrupts are masked, but a mutex is
/// always free, so locking it is allowed.
///
/// # Panics
///
/// If there are threads. Then interrupts are masked because a spinlock is held or an interrupt is being
/// handled, and the thread must not sleep.
#[cold]
fn assert_no_threads() {
    assert!(schedule::try_current().is_none(), "a mutex is locked where a thread must not sleep");
}
