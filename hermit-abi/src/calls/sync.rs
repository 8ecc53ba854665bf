//! Synchronisation of threads: futexes and semaphores.

use crate::types::scalar::sem_t;
use crate::types::time::timespec;

unsafe extern "C" {
    /// Sleeps while the word at `address` is `expected`, until a [`futex_wake`] or the timeout. The
    /// comparison and the start of the sleep are atomic with respect to [`futex_wake`]: no wake-up is lost.
    ///
    /// A null `timeout` means no timeout. Otherwise it is a time of
    /// [`CLOCK_MONOTONIC`](crate::CLOCK_MONOTONIC), or a duration if `flags` is
    /// [`FUTEX_RELATIVE_TIMEOUT`](crate::FUTEX_RELATIVE_TIMEOUT).
    ///
    /// Returns 0 after a wake-up, `-EAGAIN` if the word has another value, `-ETIMEDOUT` at the timeout and
    /// never earlier, and `-EINVAL` for a null address, a negative timeout or unknown flags.
    ///
    /// # Safety
    ///
    /// `address` must be aligned and valid for atomic reading until the call returns; `timeout` must be null
    /// or valid for reading.
    #[link_name = "sys_futex_wait"]
    pub fn futex_wait(address: *mut u32, expected: u32, timeout: *const timespec, flags: u32) -> i32;

    /// Wakes at most `count` threads that sleep on `address`, all if `count` is `i32::MAX`, and returns their
    /// number. Fails with `-EINVAL` for a null address or a negative count.
    ///
    /// The memory at the address is not accessed.
    #[link_name = "sys_futex_wake"]
    pub fn futex_wake(address: *mut u32, count: i32) -> i32;

    /// Initialises a semaphore with the count `value`. A semaphore shared between processes (`pshared` not 0)
    /// is not supported: `-ENOSYS`. Fails with `-EINVAL` for a value greater than `i32::MAX`.
    ///
    /// # Safety
    ///
    /// `sem` must be valid for writing, and not in use as a semaphore.
    #[link_name = "sys_sem_init"]
    pub fn sem_init(sem: *mut sem_t, pshared: i32, value: u32) -> i32;

    /// Destroys a semaphore.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`], and no thread may wait for it or use it again.
    #[link_name = "sys_sem_destroy"]
    pub fn sem_destroy(sem: *mut sem_t) -> i32;

    /// Increments a semaphore's count, and wakes one waiter. Fails with `-EOVERFLOW` if
    /// the count would be greater than `i32::MAX`.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`].
    #[link_name = "sys_sem_post"]
    pub fn sem_post(sem: *mut sem_t) -> i32;

    /// Decrements a semaphore's count; fails with `-EAGAIN` if it is 0.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`].
    #[link_name = "sys_sem_trywait"]
    pub fn sem_trywait(sem: *mut sem_t) -> i32;

    /// Waits until a semaphore's count is not 0, and decrements it. Fails with `-ETIMEDOUT` at the time
    /// `abs_timeout` of [`CLOCK_REALTIME`](crate::CLOCK_REALTIME). A null `abs_timeout` means no timeout.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`]; `abs_timeout` must be null or valid for reading.
    #[link_name = "sys_sem_timedwait"]
    pub fn sem_timedwait(sem: *mut sem_t, abs_timeout: *const timespec) -> i32;
}
