//! The state of a mutex whose waiters sleep: a futex, from whose queue each unlock wakes one waiter.
//!
//! A mutex that is held has bit 0 set, whether threads wait for it or not: so locking is an instruction that
//! sets the bit and says what it was. A woken thread may find the mutex locked again by one that arrived
//! meanwhile, and then waits again. The mutex of std is the same (`xtask/patches/std/short-paths.patch`).

use core::sync::atomic::Ordering::{Acquire, Release};

use crate::sync::AtomicU32;

/// The mutex is not held, and no thread waits for it.
pub const UNLOCKED: u32 = 0;
/// The mutex is held, and no thread waits for it. The bit of this value is set as long as the mutex is held.
const LOCKED: u32 = 1;
/// The mutex is held, and threads may wait for it: the thread that unlocks it wakes one of them.
const CONTENDED: u32 = 3;

/// Locks a mutex if it is not held; whether it was not.
#[inline]
pub fn try_lock(futex: &AtomicU32) -> bool {
    futex.fetch_or(LOCKED, Acquire) & LOCKED == 0
}

/// Locks a mutex, after [`try_lock`] has failed. `wait` waits while the futex has the value that it is given,
/// until it is woken; it may return early.
pub fn lock_contended(futex: &AtomicU32, mut wait: impl FnMut(u32)) {
    // From the swap on, an unlock wakes a waiter: there may be others, which this thread knows nothing of.
    while futex.swap(CONTENDED, Acquire) != UNLOCKED {
        wait(CONTENDED);
    }
}

/// Unlocks a mutex. Returns whether the caller is to wake one waiter of the futex, which may be freed
/// already: the thread that locks the mutex next may do so.
#[inline]
#[must_use]
pub fn unlock(futex: &AtomicU32) -> bool {
    futex.swap(UNLOCKED, Release) == CONTENDED
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{UNLOCKED, lock_contended, try_lock, unlock};
    use crate::sync::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn unlock_without_waiters_wakes_none() {
        let futex = AtomicU32::new(UNLOCKED);
        assert!(try_lock(&futex));
        assert!(!try_lock(&futex));
        assert!(!unlock(&futex));
        assert!(try_lock(&futex));
    }

    /// A thread waits until another one, which was faster, has unlocked as well. It then holds the mutex
    /// contended: it does not know whether more threads wait.
    #[test]
    fn each_unlock_after_a_wait_wakes_a_waiter() {
        let futex = AtomicU32::new(UNLOCKED);
        assert!(try_lock(&futex));
        let mut waits = 0;
        lock_contended(&futex, |value| {
            assert_eq!(futex.load(Relaxed), value);
            waits += 1;
            assert!(unlock(&futex));
            if waits < 3 {
                assert!(try_lock(&futex));
            }
        });
        assert_eq!(waits, 3);
        assert!(unlock(&futex));
        assert!(try_lock(&futex));
        assert!(!unlock(&futex));
    }
}
