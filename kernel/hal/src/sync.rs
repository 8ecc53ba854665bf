//! Locks.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardNoSend, RawMutex};

use crate::interrupts;

/// A lock that spins, with interrupts masked from before it is taken until after it is released, so that an
/// interrupt handler may take it too.
pub type SpinLock<T> = lock_api::Mutex<RawSpinLock, T>;

/// The mechanism of [`SpinLock`].
#[derive(Debug)]
pub struct RawSpinLock {
    locked: AtomicBool,
}

// SAFETY: only one holder can have changed `locked` from false to true, and only it changes it back.
unsafe impl RawMutex for RawSpinLock {
    const INIT: Self = Self { locked: AtomicBool::new(false) };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        interrupts::mask();
        while self.locked.swap(true, Ordering::Acquire) {
            while self.locked.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        interrupts::mask();
        let free = !self.locked.swap(true, Ordering::Acquire);
        if !free {
            interrupts::unmask();
        }
        free
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
        interrupts::unmask();
    }
}
