//! Waiting for other threads: futexes and semaphores.

use crate::types::scalar::sem_t;
use crate::types::time::timespec;

unsafe extern "C" {
    /// Sleeps while the number at `address` is `expected`, until [`futex_wake`] wakes the thread or the time is up.
    /// Looking at the number and going to sleep are one step, so no wake in between is missed.
    ///
    /// A null `timeout` means no limit; otherwise it is a time of [`CLOCK_MONOTONIC`](crate::CLOCK_MONOTONIC), or with
    /// [`FUTEX_RELATIVE_TIMEOUT`](crate::FUTEX_RELATIVE_TIMEOUT) in `flags` a span from now.
    ///
    /// Returns 0 when woken, `-EAGAIN` if the number was another, `-ETIMEDOUT` when the time is up and only then,
    /// and `-EINVAL` for a null address, a negative timeout or flags that do not exist.
    ///
    /// # Safety
    ///
    /// `address` must be aligned and valid for atomic reading until the call returns; `timeout` must be null or valid
    /// for reading.
    #[link_name = "sys_futex_wait"]
    pub fn futex_wait(address: *mut u32, expected: u32, timeout: *const timespec, flags: u32) -> i32;

    /// Wakes at most `count` threads that sleep on `address`, all of them if `count` is `i32::MAX`, and returns how
    /// many it woke. Fails with `-EINVAL` for a null address or a negative count.
    ///
    /// The address is only compared, never read.
    #[link_name = "sys_futex_wake"]
    pub fn futex_wake(address: *mut u32, count: i32) -> i32;

    /// Sets up a semaphore with the count `value`. `pshared` asks for one shared between processes and must be 0, or
    /// the call fails with `-ENOSYS`. Fails with `-EINVAL` for a value greater than `i32::MAX`.
    ///
    /// # Safety
    ///
    /// `sem` must be valid for writing, and must not be a semaphore already.
    #[link_name = "sys_sem_init"]
    pub fn sem_init(sem: *mut sem_t, pshared: i32, value: u32) -> i32;

    /// Takes a semaphore down.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`], and no thread may wait for it or use it again.
    #[link_name = "sys_sem_destroy"]
    pub fn sem_destroy(sem: *mut sem_t) -> i32;

    /// Adds one to a semaphore's count, which lets one thread that waits for it go on. Fails with `-EOVERFLOW` if
    /// the count would be greater than `i32::MAX`.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`].
    #[link_name = "sys_sem_post"]
    pub fn sem_post(sem: *mut sem_t) -> i32;

    /// Takes one from a semaphore's count, or fails at once with a negative number if it is 0.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`].
    #[link_name = "sys_sem_trywait"]
    pub fn sem_trywait(sem: *mut sem_t) -> i32;

    /// Takes one from a semaphore's count, waiting until it is not 0 or the time `abs_timeout` of
    /// [`CLOCK_REALTIME`](crate::CLOCK_REALTIME) has come: then it fails with `-ETIMEDOUT`. A null `abs_timeout` means
    /// no limit.
    ///
    /// # Safety
    ///
    /// `sem` must come from [`sem_init`]; `abs_timeout` must be null or valid for reading.
    #[link_name = "sys_sem_timedwait"]
    pub fn sem_timedwait(sem: *mut sem_t, abs_timeout: *const timespec) -> i32;
}
