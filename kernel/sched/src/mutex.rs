//! The state of a mutex whose waiters sleep. It is a futex, and each unlock wakes one waiter of the futex.
//!
//! Bit 0 is set while the mutex is held, whether threads wait for it or not. So one instruction that sets the
//! bit and returns its old value locks the mutex. If another thread has locked the mutex before the woken
//! thread runs, the woken thread waits again. The mutex of std works in the same way
//! (`xtask/toolchain/patches/std/short-paths.patch`).

use core::sync::atomic::Ordering::{Acquire, Release};

use hermit_base::sync::atomic::AtomicU32;

/// The mutex is not held, and no thread waits for it.
pub const UNLOCKED: u32 = 0;
/// The mutex is held, and no thread waits for it. The bit of this value is set as long as the mutex is held.
const LOCKED: u32 = 1;
/// The mutex is held, and threads may wait for it: the thread that unlocks it wakes one of them.
const CONTENDED: u32 = 3;

/// Locks a mutex if it is not held. Returns true if this call has locked it.
#[inline]
pub fn try_lock(futex: &AtomicU32) -> bool {
    futex.fetch_or(LOCKED, Acquire) & LOCKED == 0
}

/// Locks a mutex, after [`try_lock`] has failed. `wait` must sleep until it is woken, if the futex has the
/// value in its argument. It may return early.
pub fn lock_contended(futex: &AtomicU32, mut wait: impl FnMut(u32)) {
    // After the swap, the next unlock wakes a waiter. That is necessary even when this thread holds the
    // mutex, because other threads may wait.
    while futex.swap(CONTENDED, Acquire) != UNLOCKED {
        wait(CONTENDED);
    }
}

/// Unlocks a mutex. Returns true if the caller must wake one waiter of the futex. The mutex may be freed
/// already at that time, by the thread that locks it next, so the caller may use only its address.
#[inline]
#[must_use]
pub fn unlock(futex: &AtomicU32) -> bool {
    futex.swap(UNLOCKED, Release) == CONTENDED
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{UNLOCKED, lock_contended, try_lock, unlock};
    use core::sync::atomic::Ordering::Relaxed;
    use hermit_base::sync::atomic::AtomicU32;

    #[test]
    fn unlock_without_waiters_wakes_none() {
        let futex = AtomicU32::new(UNLOCKED);
        assert!(try_lock(&futex));
        assert!(!try_lock(&futex));
        assert!(!unlock(&futex));
        assert!(try_lock(&futex));
    }

    /// A thread waits until another thread, which was faster, has unlocked the mutex. It then holds the mutex
    /// in the contended state, because it does not know if more threads wait.
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
