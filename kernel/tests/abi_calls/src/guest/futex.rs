//! Futexes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hermit_abi::{CLOCK_MONOTONIC, EAGAIN, EINVAL, ETIMEDOUT, FUTEX_RELATIVE_TIMEOUT, timespec};

use super::calls::{self, ErrnoResult};
use super::support::{QUIET_TIME, check_duration, wait_until};

const WAITERS: usize = 5;

const TURNS: u32 = 1000;

pub(crate) fn futex() {
    invalid_calls();
    timeouts();
    wakes_are_counted();
    alternate();
}

fn wait(futex: &AtomicU32, expected: u32) -> ErrnoResult {
    calls::futex_wait(Some(futex), expected, None, 0)
}

fn invalid_calls() {
    let futex = AtomicU32::new(7);
    assert_eq!(wait(&futex, 8), Err(EAGAIN));
    assert_eq!(calls::futex_wait(None, 7, None, 0), Err(EINVAL));
    assert_eq!(calls::futex_wait(Some(&futex), 7, None, 2), Err(EINVAL));
    for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 0)] {
        for flags in [0, FUTEX_RELATIVE_TIMEOUT] {
            let timeout = timespec { tv_sec, tv_nsec };
            assert_eq!(calls::futex_wait(Some(&futex), 7, Some(timeout), flags), Err(EINVAL));
        }
    }
    assert_eq!(calls::futex_wake(None, 1), Err(EINVAL));
    assert_eq!(calls::futex_wake(Some(&futex), -1), Err(EINVAL));
    assert_eq!(calls::futex_wake(Some(&futex), i32::MAX), Ok(0), "no waiter");
    assert_eq!(calls::futex_wake(Some(&futex), 0), Ok(0));
}

fn timeouts() {
    let futex = AtomicU32::new(7);
    for span in [0, 1, 1_000, 1_000_000, 30_000_000].map(Duration::from_nanos) {
        let relative = || {
            let timeout = calls::timespec(span);
            calls::futex_wait(Some(&futex), 7, Some(timeout), FUTEX_RELATIVE_TIMEOUT)
        };
        assert_eq!(check_duration(span, "a relative wait", relative), Err(ETIMEDOUT));
        let absolute = || {
            let end = calls::timespec(calls::clock(CLOCK_MONOTONIC) + span);
            calls::futex_wait(Some(&futex), 7, Some(end), 0)
        };
        assert_eq!(check_duration(span, "an absolute wait", absolute), Err(ETIMEDOUT));
    }
    let past = timespec { tv_sec: 0, tv_nsec: 1 };
    assert_eq!(calls::futex_wait(Some(&futex), 7, Some(past), 0), Err(ETIMEDOUT));
    // No waiter is left in the queue.
    assert_eq!(calls::futex_wake(Some(&futex), i32::MAX), Ok(0));
    woken_before_timeout(timespec { tv_sec: i64::MAX, tv_nsec: 999_999_999 });
    woken_before_timeout(timespec { tv_sec: 600, tv_nsec: 0 });
}

fn woken_before_timeout(timeout: timespec) {
    let futex = AtomicU32::new(7);
    let result = thread::scope(|scope| {
        let waiter =
            scope.spawn(|| calls::futex_wait(Some(&futex), 7, Some(timeout), FUTEX_RELATIVE_TIMEOUT));
        wait_until("a waiter", || calls::futex_wake(Some(&futex), 1) == Ok(1));
        waiter.join().expect("the waiter panicked")
    });
    assert_eq!(result, Ok(0));
}

/// `futex_wake` wakes as many waiters as it returns, and only those of this address.
fn wakes_are_counted() {
    let (futex, other) = (AtomicU32::new(0), AtomicU32::new(0));
    let returned = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                assert_eq!(wait(&futex, 0), Ok(0));
                returned.fetch_add(1, Ordering::SeqCst);
            });
        }
        let first = wake(&futex, 2);
        thread::sleep(QUIET_TIME);
        assert_eq!(calls::futex_wake(Some(&other), i32::MAX), Ok(0), "no waiter at this address");
        assert!(returned.load(Ordering::SeqCst) <= first, "more have returned than were woken");
        assert_eq!(first + wake(&futex, WAITERS - first), WAITERS);
        assert_eq!(calls::futex_wake(Some(&futex), i32::MAX), Ok(0), "all were woken");
    });
    assert_eq!(returned.into_inner(), WAITERS);
}

/// Wakes `wanted` waiters, which may still be about to wait.
fn wake(futex: &AtomicU32, wanted: usize) -> usize {
    let woken = AtomicUsize::new(0);
    wait_until("waiters", || {
        let missing = wanted - woken.load(Ordering::Relaxed);
        let more = calls::futex_wake(Some(futex), i32::try_from(missing).expect("these are few"));
        let more = usize::try_from(more.expect("it cannot be woken")).expect("a negative number of threads");
        assert!(more <= missing, "{more} were woken instead of {missing}");
        woken.fetch_add(more, Ordering::Relaxed);
        more == missing
    });
    wanted
}

/// Two threads alternate.
fn alternate() {
    let turn = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| take_turns(&turn, 1));
        take_turns(&turn, 0);
    });
    assert_eq!(turn.load(Ordering::SeqCst), 0);
}

fn take_turns(turn: &AtomicU32, own: u32) {
    for _ in 0..TURNS {
        while turn.load(Ordering::SeqCst) != own {
            let result = wait(turn, 1 - own);
            assert!([Ok(0), Err(EAGAIN)].contains(&result), "{result:?}");
        }
        turn.store(1 - own, Ordering::SeqCst);
        assert!(calls::futex_wake(Some(turn), 1).is_ok_and(|woken| woken <= 1));
    }
}
