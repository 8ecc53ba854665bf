//! Spinlocks. A thread that holds one must not sleep, nor drop a value whose `Drop` may sleep.
//!
//! [`SpinLock`] increments the mask depth, and a switch to another thread asserts that the depth is one, so
//! it panics while such a lock is held. [`MaskedLock`] does not change the depth. It borrows the [`Masked`].
//! A switch needs an exclusive reference to that, so a switch while the lock is held does not compile.

use core::sync::atomic::{AtomicU32, Ordering};

use lock_api::{GuardNoSend, RawMutex};

use crate::backoff::Backoff;
use crate::interrupts::{self, Masked};
use crate::tlb;

/// A spinlock that masks interrupts from before it is taken until after it is released, so that an interrupt
/// handler may take it too.
pub type SpinLock<T> = lock_api::Mutex<RawSpinLock, T>;

/// A spinlock that is taken only where interrupts are masked already.
#[derive(Debug, Default)]
pub struct MaskedLock<T>(lock_api::Mutex<RawMaskedLock, T>);

impl<T> MaskedLock<T> {
    /// Creates a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(lock_api::Mutex::const_new(RawMaskedLock::INIT, value))
    }

    /// Calls `action` with the value while the lock is held. `action` cannot switch to another thread, since
    /// a switch needs an exclusive reference to `masked`.
    #[inline]
    pub fn with<R>(&self, masked: &Masked, action: impl FnOnce(&mut T) -> R) -> R {
        let _ = masked;
        action(&mut self.0.lock())
    }

    /// Calls `action` with the value while the lock is held, for callers that know that interrupts are masked
    /// but have no [`Masked`]. If interrupts are not masked, and an interrupt handler takes the lock on the
    /// same CPU, the handler spins forever. `action` must not switch to another thread. The scheduler's
    /// action cannot, since the scheduler itself has no threads to switch between.
    #[inline]
    pub fn with_unchecked_mask<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        interrupts::debug_assert_masked();
        action(&mut self.0.lock())
    }
}

/// The raw lock of [`SpinLock`].
#[derive(Debug)]
pub struct RawSpinLock(RawMaskedLock);

/// The raw lock of [`MaskedLock`].
#[derive(Debug)]
struct RawMaskedLock {
    /// 1 while the lock is held, else 0. It is a word because one instruction can set a bit of a word and
    /// return its old value.
    locked: AtomicU32,
}

impl RawMaskedLock {
    /// Takes the lock if it is free.
    #[inline]
    fn set(&self) -> bool {
        self.locked.fetch_or(1, Ordering::Acquire) & 1 == 0
    }

    /// Waits until another CPU has released the lock, and takes it.
    #[cold]
    fn lock_contended(&self) {
        while !self.set() {
            wait_while(|| self.locked.load(Ordering::Relaxed) != 0);
        }
    }
}

/// Waits while `is_held` returns true, because another CPU holds a lock.
fn wait_while(is_held: impl Fn() -> bool) {
    let mut backoff = Backoff::default();
    while is_held() {
        // The CPU that holds the lock may wait for this one to flush its TLB.
        tlb::flush_if_requested();
        backoff.wait();
    }
}

// SAFETY: a CPU holds the lock after it has changed `locked` from 0 to 1, which the atomic operation lets one
// CPU do at a time; only `unlock`, whose caller holds the lock, changes it back. Acquire and release order
// the accesses to the value.
unsafe impl RawMutex for RawMaskedLock {
    const INIT: Self = Self { locked: AtomicU32::new(0) };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.set() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.set()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.locked.store(0, Ordering::Release);
    }
}

// SAFETY: the inner lock alone decides who holds it, and it excludes as `RawMutex` demands; masking
// interrupts around it does not change that.
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
        let is_taken = self.0.try_lock();
        if !is_taken {
            interrupts::unmask();
        }
        is_taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds this lock (contract of `RawMutex::unlock`), and with it the inner one,
        // which `lock` and `try_lock` have taken.
        unsafe { self.0.unlock() };
        interrupts::unmask();
    }
}
