//! Futexes, semaphores, and the wait queues of early versions of the ABI.

use core::sync::atomic::{AtomicU32, Ordering};

use hermit_abi::{FUTEX_RELATIVE_TIMEOUT, sem_t, timespec};
use hermit_hal::clock;
use hermit_interface::Errno;

use super::time::nanoseconds;
use super::{export, unsupported, user};
use crate::wait;

/// The moment of the monotonic clock at which a futex wait gives up; `None` never.
///
/// # Safety
///
/// `timeout` is null or valid for a read.
unsafe fn deadline(timeout: *const timespec, flags: u32) -> Result<Option<u64>, Errno> {
    if flags & !FUTEX_RELATIVE_TIMEOUT != 0 {
        return Err(Errno::EINVAL);
    }
    if timeout.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let timeout = nanoseconds(unsafe { user::read(timeout) }?)?;
    let start = if flags & FUTEX_RELATIVE_TIMEOUT != 0 { clock::monotonic() } else { 0 };
    Ok(Some(start.saturating_add(timeout)))
}

export! {
    /// With a single thread nobody can wake the waiter: it waits for the timeout, or for ever.
    fn sys_futex_wait as futex_wait(address: *mut u32, expected: u32, timeout: *const timespec, flags: u32) -> i32 {
        if address.is_null() || !address.is_aligned() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes null or a timeout.
        let deadline = unsafe { deadline(timeout, flags) }?;
        // SAFETY: the program passes the address of a futex, which is only accessed atomically.
        let futex = unsafe { AtomicU32::from_ptr(address) };
        if futex.load(Ordering::SeqCst) != expected {
            return Err(Errno::EAGAIN);
        }
        wait::wait_until(deadline, || false);
        Err(Errno::ETIMEDOUT)
    }

    fn sys_futex_wake as futex_wake(address: *mut u32, count: i32) -> i32 {
        if address.is_null() || count < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(0)
    }
}

unsupported! {
    ENOSYS;
    sys_sem_init as sem_init(*mut sem_t, i32, u32) -> i32,
    sys_sem_destroy as sem_destroy(*mut sem_t) -> i32,
    sys_sem_post as sem_post(*mut sem_t) -> i32,
    sys_sem_trywait as sem_trywait(*mut sem_t) -> i32,
    sys_sem_timedwait as sem_timedwait(*mut sem_t, *const timespec) -> i32,
    sys_notify as notify(usize, i32) -> i32,
    sys_add_queue as add_queue(usize, i64) -> i32,
    sys_wait as wait(usize) -> i32,
    sys_init_queue as init_queue(usize) -> i32,
    sys_destroy_queue as destroy_queue(usize) -> i32,
}
