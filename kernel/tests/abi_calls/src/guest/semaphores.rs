//! Semaphores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hermit_abi::{EAGAIN, EINVAL, ENOSYS, EOVERFLOW, ETIMEDOUT, timespec};

use super::calls::{self, Semaphore};
use super::support::{QUIET_TIME, check_duration};

const WAITERS: usize = 8;

/// Number of times that each thread acquires and releases the semaphore.
const ROUNDS: usize = 500;

pub(crate) fn semaphores() {
    counts();
    timeouts();
    waiters();
    exclusion();
}

fn counts() {
    let semaphore = Semaphore::new(2);
    assert_eq!([(); 3].map(|()| semaphore.try_wait()), [Ok(0), Ok(0), Err(EAGAIN)]);
    assert_eq!(semaphore.post(), Ok(0));
    assert_eq!([semaphore.wait(None), semaphore.try_wait()], [Ok(0), Err(EAGAIN)]);
    assert_eq!(semaphore.destroy(), Ok(0));

    let refused = Semaphore::default();
    assert_eq!(refused.init(1, 0), Err(ENOSYS));
    assert_eq!(refused.init(0, u32::MAX), Err(EINVAL));
    let largest = Semaphore::new(i32::MAX.cast_unsigned());
    assert_eq!(largest.post(), Err(EOVERFLOW));
    assert_eq!([largest.try_wait(), largest.post()], [Ok(0), Ok(0)]);
}

fn timeouts() {
    let semaphore = Semaphore::new(0);
    for moment in [Duration::from_nanos(1), calls::wall_clock() - Duration::from_secs(3600)] {
        assert_eq!(semaphore.wait(Some(calls::timespec(moment))), Err(ETIMEDOUT));
    }
    for span in [1, 20].map(Duration::from_millis) {
        let wait = || semaphore.wait(Some(calls::timespec(calls::wall_clock() + span)));
        assert_eq!(check_duration(span, "a wait for a semaphore", wait), Err(ETIMEDOUT));
    }
    assert_eq!(semaphore.wait(Some(timespec { tv_sec: 0, tv_nsec: 1_000_000_000 })), Err(EINVAL));
    assert_eq!(semaphore.wait(Some(timespec { tv_sec: -1, tv_nsec: 0 })), Err(EINVAL));
    // An available semaphore is acquired even after the deadline.
    assert_eq!(semaphore.post(), Ok(0));
    assert_eq!(semaphore.wait(Some(calls::timespec(Duration::ZERO))), Ok(0));
}

/// Each post wakes one waiter, and no more.
fn waiters() {
    let (semaphore, passed) = (Semaphore::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for index in 0..WAITERS {
            let late = Some(calls::timespec(calls::wall_clock() + Duration::from_secs(600)));
            let deadline = late.filter(|_| index % 2 == 0);
            let (semaphore, passed) = (&semaphore, &passed);
            scope.spawn(move || {
                assert_eq!(semaphore.wait(deadline), Ok(0));
                passed.fetch_add(1, Ordering::SeqCst);
            });
        }
        for posted in 0..WAITERS {
            thread::sleep(QUIET_TIME / 4);
            assert!(passed.load(Ordering::SeqCst) <= posted, "more passed than {posted} posts allow");
            assert_eq!(semaphore.post(), Ok(0));
        }
    });
    assert_eq!((passed.into_inner(), semaphore.try_wait()), (WAITERS, Err(EAGAIN)));
}

/// A semaphore of 2 admits two threads, never three.
fn exclusion() {
    let (semaphore, inside) = (Semaphore::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..ROUNDS).for_each(|_| enter(&semaphore, &inside)));
        }
    });
    assert_eq!([(); 3].map(|()| semaphore.try_wait()), [Ok(0), Ok(0), Err(EAGAIN)]);
}

fn enter(semaphore: &Semaphore, inside: &AtomicUsize) {
    assert_eq!(semaphore.wait(None), Ok(0));
    assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "there is no room for a third");
    thread::yield_now();
    inside.fetch_sub(1, Ordering::SeqCst);
    assert_eq!(semaphore.post(), Ok(0));
}
