//! Threads are parked on futexes, as by std.

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

/// Flag of `sys_futex_wait`: the timeout is a duration.
const FUTEX_RELATIVE_TIMEOUT: u32 = 1;

#[repr(C)]
struct Timespec {
    tv_sec: i64,
    tv_nsec: i32,
}

unsafe extern "C" {
    fn sys_futex_wait(address: *const AtomicU32, expected: u32, timeout: *const Timespec, flags: u32) -> i32;
    fn sys_futex_wake(address: *const AtomicU32, count: i32) -> i32;
}

// Helper type for putting a thread to sleep until some other thread wakes it up
pub struct ThreadParker {
    /// 1 while the thread is parked.
    futex: AtomicU32,
}

impl super::ThreadParkerT for ThreadParker {
    type UnparkHandle = UnparkHandle;

    const IS_CHEAP_TO_CONSTRUCT: bool = true;

    #[inline]
    fn new() -> ThreadParker {
        ThreadParker { futex: AtomicU32::new(0) }
    }

    #[inline]
    unsafe fn prepare_park(&self) {
        self.futex.store(1, Ordering::Relaxed);
    }

    #[inline]
    unsafe fn timed_out(&self) -> bool {
        self.futex.load(Ordering::Relaxed) != 0
    }

    #[inline]
    unsafe fn park(&self) {
        while self.futex.load(Ordering::Acquire) != 0 {
            self.wait(ptr::null());
        }
    }

    #[inline]
    unsafe fn park_until(&self, timeout: Instant) -> bool {
        while self.futex.load(Ordering::Acquire) != 0 {
            let now = Instant::now();
            if timeout <= now {
                return false;
            }
            let left = timeout - now;
            // A longer wait is continued by the loop.
            let tv_sec = left.as_secs().min(i64::from(u32::MAX) as u64) as i64;
            self.wait(&Timespec { tv_sec, tv_nsec: left.subsec_nanos() as i32 });
        }
        true
    }

    #[inline]
    unsafe fn unpark_lock(&self) -> UnparkHandle {
        // Nothing needs to be locked: the wake-up does not access the memory.
        self.futex.store(0, Ordering::Release);
        UnparkHandle(&self.futex)
    }
}

impl ThreadParker {
    #[inline]
    fn wait(&self, timeout: *const Timespec) {
        // SAFETY: The futex is borrowed, and each caller's timeout is null or lives until its call returns.
        // The result does not matter: callers look at the futex again.
        unsafe { sys_futex_wait(&self.futex, 1, timeout, FUTEX_RELATIVE_TIMEOUT) };
    }
}

pub struct UnparkHandle(*const AtomicU32);

impl super::UnparkHandleT for UnparkHandle {
    #[inline]
    unsafe fn unpark(self) {
        // The thread may have ended by now: the address serves as a number only.
        // SAFETY: `sys_futex_wake` does not access the memory.
        unsafe { sys_futex_wake(self.0, 1) };
    }
}

#[inline]
pub fn thread_yield() {
    thread::yield_now();
}
