//! Futexes, semaphores, and the wait queues of early versions of the ABI.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use hermit_abi::{FUTEX_RELATIVE_TIMEOUT, sem_t, timespec};
use hermit_hal::clock;
use hermit_interface::Errno;

use super::time::nanoseconds;
use super::{export, user};
use crate::threads::{deferred_block, futex};

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

/// The number at an address.
///
/// # Safety
///
/// Null, or valid for atomic accesses as long as the result lives.
unsafe fn number<'a>(address: *mut u32) -> Result<&'a AtomicU32, Errno> {
    if address.is_null() || !address.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; aligned (checked).
    Ok(unsafe { AtomicU32::from_ptr(address) })
}

export! {
    fn sys_futex_wait as futex_wait(address: *mut u32, expected: u32, timeout: *const timespec, flags: u32) -> i32 {
        // SAFETY: the program passes null or a timeout.
        let deadline = unsafe { deadline(timeout, flags) }?;
        // SAFETY: the program passes the address of a futex, which is only accessed atomically.
        let futex = unsafe { number(address) }?;
        futex::wait(futex, expected, deadline).map(|()| 0)
    }

    fn sys_futex_wake as futex_wake(address: *mut u32, count: i32) -> i32 {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        if address.is_null() {
            return Err(Errno::EINVAL);
        }
        let woken = futex::wake(address.addr() as u64, count);
        Ok(i32::try_from(woken).unwrap_or(i32::MAX))
    }
}

/// A semaphore is its count, which lies where the program has its handle; who has to wait waits for that address.
///
/// # Safety
///
/// As for [`number`].
unsafe fn semaphore<'a>(semaphore: *mut sem_t) -> Result<&'a AtomicU32, Errno> {
    // SAFETY: the caller's promise.
    unsafe { number(semaphore.cast()) }
}

/// Takes one, if there is one.
fn take(count: &AtomicU32) -> Result<(), Errno> {
    let taken = count.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    taken.map(drop).map_err(|_| Errno::EAGAIN)
}

export! {
    fn sys_sem_init as sem_init(sem: *mut sem_t, pshared: i32, value: u32) -> i32 {
        if pshared != 0 {
            return Err(Errno::ENOSYS);
        }
        if i32::try_from(value).is_err() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes a place for a semaphore.
        unsafe { semaphore(sem) }?.store(value, SeqCst);
        Ok(0)
    }

    fn sys_sem_destroy as sem_destroy(sem: *mut sem_t) -> i32 {
        // SAFETY: the program passes a semaphore.
        unsafe { semaphore(sem) }.map(|_| 0)
    }

    fn sys_sem_post as sem_post(sem: *mut sem_t) -> i32 {
        // SAFETY: the program passes a semaphore.
        let count = unsafe { semaphore(sem) }?;
        let more = |count: u32| count.checked_add(1).filter(|&count| i32::try_from(count).is_ok());
        count.fetch_update(SeqCst, SeqCst, more).map_err(|_| Errno::EOVERFLOW)?;
        futex::wake(sem.addr() as u64, 1);
        Ok(0)
    }

    fn sys_sem_trywait as sem_trywait(sem: *mut sem_t) -> i32 {
        // SAFETY: the program passes a semaphore.
        take(unsafe { semaphore(sem) }?).map(|()| 0)
    }

    fn sys_sem_timedwait as sem_timedwait(sem: *mut sem_t, abs_timeout: *const timespec) -> i32 {
        // SAFETY: the program passes a semaphore.
        let count = unsafe { semaphore(sem) }?;
        let deadline = if abs_timeout.is_null() {
            None
        } else {
            // SAFETY: the program passes null or a moment of the wall clock.
            let moment = nanoseconds(unsafe { user::read(abs_timeout) }?)?;
            Some(clock::monotonic().saturating_add(moment.saturating_sub(clock::wall_clock())))
        };
        while take(count).is_err() {
            match futex::wait(count, 0, deadline) {
                // The count has changed.
                Ok(()) | Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    fn sys_init_queue as init_queue(_id: usize) -> i32 {
        Ok(0)
    }

    fn sys_destroy_queue as destroy_queue(_id: usize) -> i32 {
        Ok(0)
    }

    fn sys_add_queue as add_queue(id: usize, timeout_ns: i64) -> i32 {
        deferred_block::prepare_wait(id, u64::try_from(timeout_ns).ok().filter(|&timeout| timeout != 0));
        Ok(0)
    }

    fn sys_wait as wait(id: usize) -> i32 {
        deferred_block::wait(id).map(|()| 0)
    }

    /// Wakes all, whatever `count` says: those who wait look again.
    fn sys_notify as notify(id: usize, _count: i32) -> i32 {
        deferred_block::notify(id);
        Ok(0)
    }
}
