//! Locks.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardNoSend, RawMutex};

use crate::interrupts::{self, Masked};
use crate::memory::shootdown;
use crate::platform;

/// A lock that spins, with interrupts masked from before it is taken until after it is released, so that an
/// interrupt handler may take it too.
pub type SpinLock<T> = lock_api::Mutex<RawSpinLock, T>;

/// A lock that spins and is only taken where interrupts are masked already.
#[derive(Debug, Default)]
pub struct MaskedLock<T>(lock_api::Mutex<RawMaskedLock, T>);

impl<T> MaskedLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(lock_api::Mutex::const_new(RawMaskedLock::INIT, value))
    }

    /// Calls `action` with what is locked.
    #[inline]
    pub fn with<R>(&self, masked: &Masked, action: impl FnOnce(&mut T) -> R) -> R {
        let _ = masked;
        action(&mut self.0.lock())
    }

    /// As [`Self::with`], for those who know that interrupts are masked, but not from whom. If they are not, an interrupt
    /// that comes meanwhile may wait for the lock for ever.
    #[inline]
    pub fn with_unchecked_mask<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        interrupts::debug_assert_masked();
        action(&mut self.0.lock())
    }
}

/// Waits a little, again and again.
///
/// Where the processor is emulated, its instruction for that is expensive, and slows down whoever is waited for: it takes
/// a lock of the emulator. So it is only used now and then.
#[derive(Debug, Default)]
pub(crate) struct Patience(u8);

impl Patience {
    /// Waits for some cycles.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(128) {
            platform::current().relax();
        }
    }
}

/// The mechanism of [`SpinLock`].
#[derive(Debug)]
pub struct RawSpinLock(RawMaskedLock);

/// The mechanism of [`MaskedLock`].
#[derive(Debug)]
struct RawMaskedLock {
    locked: AtomicBool,
}

impl RawMaskedLock {
    #[cold]
    fn wait(&self) {
        let mut patience = Patience::default();
        while self.locked.load(Ordering::Relaxed) {
            // Whoever holds the lock may wait for this CPU to forget a mapping.
            shootdown::serve();
            patience.wait();
        }
    }
}

// SAFETY: only one holder can have changed `locked` from false to true, and only it changes it back.
unsafe impl RawMutex for RawMaskedLock {
    const INIT: Self = Self { locked: AtomicBool::new(false) };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        while self.locked.swap(true, Ordering::Acquire) {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

// SAFETY: as the lock that it wraps.
unsafe impl RawMutex for RawSpinLock {
    const INIT: Self = Self(RawMaskedLock::INIT);

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        interrupts::mask();
        self.0.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        interrupts::mask();
        let free = self.0.try_lock();
        if !free {
            interrupts::unmask();
        }
        free
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() };
        interrupts::unmask();
    }
}
