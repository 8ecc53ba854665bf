//! Futexes, semaphores, and the wait queues of early versions of the ABI.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use hermit_abi::{FUTEX_RELATIVE_TIMEOUT, sem_t, timespec};
use hermit_hal::clock;
use hermit_interface::Errno;

use super::export;
use super::time::nanoseconds;
use crate::threads::{deferred_block, futex};

/// Converts the timeout of a futex wait to a deadline of the monotonic clock.
fn deadline(timeout: timespec, flags: u32) -> Result<u64, Errno> {
    let timeout = nanoseconds(timeout)?;
    let start = if flags & FUTEX_RELATIVE_TIMEOUT != 0 { clock::monotonic() } else { 0 };
    Ok(start.saturating_add(timeout))
}

export! {
    fn sys_futex_wait as futex_wait(address: *mut u32, expected: u32, timeout: *const timespec, flags: u32) -> i32
    where futex: UserAtomic::new(address), timeout: UserPtr::new(timeout) {
        if flags & !FUTEX_RELATIVE_TIMEOUT != 0 {
            return Err(Errno::EINVAL);
        }
        if timeout.is_null() {
            futex::wait_unlimited(futex.get()?, expected).map(|()| 0)
        } else {
            let deadline = deadline(timeout.read()?, flags)?;
            futex::wait_until(futex.get()?, expected, deadline).map(|()| 0)
        }
    }

    fn sys_futex_wake as futex_wake(address: *mut u32, count: i32) -> i32 {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        if address.is_null() {
            return Err(Errno::EINVAL);
        }
        let address = address.addr() as u64;
        if count == 1 {
            return Ok(futex::wake_one(address));
        }
        Ok(i32::try_from(futex::wake_many(address, count)).unwrap_or(i32::MAX))
    }
}

/// Decrements a semaphore's count. Fails with `EAGAIN` if the count is 0.
fn decrement(count: &AtomicU32) -> Result<(), Errno> {
    let taken = count.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    taken.map(drop).map_err(|_| Errno::EAGAIN)
}

// A semaphore consists only of its count, which is stored in the program's handle itself. Waiters use the
// count as a futex.
export! {
    fn sys_sem_init as sem_init(sem: *mut sem_t, pshared: i32, value: u32) -> i32
    where count: UserAtomic::new(sem) {
        if pshared != 0 {
            return Err(Errno::ENOSYS);
        }
        if i32::try_from(value).is_err() {
            return Err(Errno::EINVAL);
        }
        count.get()?.store(value, SeqCst);
        Ok(0)
    }

    fn sys_sem_destroy as sem_destroy(sem: *mut sem_t) -> i32
    where count: UserAtomic::new(sem) {
        count.get().map(|_| 0)
    }

    fn sys_sem_post as sem_post(sem: *mut sem_t) -> i32
    where count: UserAtomic::new(sem) {
        let increment = |count: u32| count.checked_add(1).filter(|&count| i32::try_from(count).is_ok());
        count.get()?.fetch_update(SeqCst, SeqCst, increment).map_err(|_| Errno::EOVERFLOW)?;
        futex::wake_one(sem.addr() as u64);
        Ok(0)
    }

    fn sys_sem_trywait as sem_trywait(sem: *mut sem_t) -> i32
    where count: UserAtomic::new(sem) {
        decrement(count.get()?).map(|()| 0)
    }

    /// The timeout is a time of the wall clock. Null means no timeout.
    fn sys_sem_timedwait as sem_timedwait(sem: *mut sem_t, abs_timeout: *const timespec) -> i32
    where count: UserAtomic::new(sem), timeout: UserPtr::new(abs_timeout) {
        let count = count.get()?;
        let deadline = if timeout.is_null() {
            None
        } else {
            let time = nanoseconds(timeout.read()?)?;
            Some(clock::monotonic().saturating_add(time.saturating_sub(clock::wall_clock())))
        };
        while decrement(count).is_err() {
            match futex::wait(count, 0, deadline) {
                // The count has changed, or the wake-up was spurious.
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

    /// Wakes all waiters, whatever `count` is. This is allowed, since they check their condition again.
    fn sys_notify as notify(id: usize, _count: i32) -> i32 {
        deferred_block::notify(id);
        Ok(0)
    }
}
