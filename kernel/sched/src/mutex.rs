//! The state of a mutex whose waiters sleep: a futex, from whose queue each unlock wakes one waiter.
//!
//! One bit says that the mutex is held, another one that threads may wait for it: so locking and unlocking are an instruction
//! each, which also says what the bits were. A woken thread may find the mutex locked again by one that arrived meanwhile, and
//! then waits again. The mutex of std is the same (`xtask/src/setup/patches/short_paths.rs`).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU32;

/// The mutex is not held, and no thread waits for it.
pub const UNLOCKED: u32 = 0;
/// Bit of a mutex that is held.
const LOCKED: u32 = 1;
/// Bit of a mutex for which threads may wait. The thread that clears it wakes one of them.
const WAITED: u32 = 2;

/// Locks a mutex if it is not held; whether it was not.
#[inline]
pub fn try_lock(futex: &AtomicU32) -> bool {
    futex.fetch_or(LOCKED, Acquire) & LOCKED == 0
}

/// Locks a mutex, after [`try_lock`] has failed. `wait` waits while the futex has the value that it is given, until it is
/// woken; it may return early.
pub fn lock_contended(futex: &AtomicU32, mut wait: impl FnMut(u32)) {
    // From the swap on, an unlock wakes a waiter: there may be others, which this thread knows nothing of.
    while futex.swap(LOCKED | WAITED, Acquire) & LOCKED != 0 {
        wait(LOCKED | WAITED);
    }
}

/// Unlocks a mutex. Returns whether the caller is to wake one waiter of the futex.
#[inline]
#[must_use]
pub fn unlock(futex: &AtomicU32) -> bool {
    futex.fetch_sub(LOCKED, Release) != LOCKED && try_clear_waited(futex)
}

/// Clears [`WAITED`] unless the mutex is held again: then the thread that unlocks it next clears the bit. Returns whether it did.
#[cold]
fn try_clear_waited(futex: &AtomicU32) -> bool {
    futex.compare_exchange(WAITED, UNLOCKED, Relaxed, Relaxed).is_ok()
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

    /// A thread waits until another one, which was faster, has unlocked as well. It then holds the mutex contended: it does
    /// not know whether more threads wait.
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
