//! Blocking until another thread wakes this one by its thread ID.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use hermit_abi::{POLLIN, pollfd};

use super::calls;
use super::eventfd::EventFd;
use super::raw_thread::{self, ANY_CPU, NORMAL_PRIORITY};
use super::support::{TIMEOUT, check_duration, wait_until};

const ROUNDS: usize = 1000;

/// Number of the step that the thread may do, and of the last one that it has done.
static ALLOWED: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn block() {
    rounds();
    timeouts();
    stale_wake_ups_are_ignored();
    // No thread has these IDs.
    [0, 0xfffe, u32::MAX].into_iter().for_each(calls::wake);
}

/// A thread does a step each time it is woken; no wake-up is lost, whenever it comes.
fn rounds() {
    let thread = raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, || {
        for round in 1..=ROUNDS {
            while ALLOWED.load(Ordering::SeqCst) < round {
                calls::block(None);
                calls::yield_now();
            }
            DONE.store(round, Ordering::SeqCst);
        }
    });
    let thread = thread.expect("no thread was started");
    for round in 1..=ROUNDS {
        ALLOWED.store(round, Ordering::SeqCst);
        calls::wake(thread);
        wait_until("a woken thread", || DONE.load(Ordering::SeqCst) == round);
    }
    assert_eq!(calls::join(thread), Ok(0));
    calls::wake(thread);
}

fn timeouts() {
    static STEP: AtomicU32 = AtomicU32::new(0);
    let thread = raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, || {
        for milliseconds in [0, 1, 30] {
            check_duration(Duration::from_millis(milliseconds), "a wait", || {
                calls::block(Some(milliseconds));
                calls::yield_now();
            });
        }
        STEP.store(1, Ordering::SeqCst);
        check_duration(Duration::ZERO, "a wait that another thread ends", || {
            while STEP.load(Ordering::SeqCst) == 1 {
                calls::block(Some(600_000));
                calls::yield_now();
            }
        });
    });
    let thread = thread.expect("no thread was started");
    wait_until("timeouts", || STEP.load(Ordering::SeqCst) == 1);
    calls::usleep(10_000);
    STEP.store(2, Ordering::SeqCst);
    check_duration(Duration::ZERO, "waking a thread", || {
        calls::wake(thread);
        assert_eq!(calls::join(thread), Ok(0));
    });
    assert!(TIMEOUT < Duration::from_millis(600_000), "its own timeout would do");
}

/// An event that the thread waited for earlier does not wake it.
fn stale_wake_ups_are_ignored() {
    let counter = EventFd::new(0, 0);
    let mut entries = [pollfd { fd: counter.0, events: POLLIN, revents: 0 }];
    assert_eq!(calls::poll(&mut entries, 1), Ok(0));
    assert_eq!(counter.write(1), Ok(8));
    check_duration(Duration::from_millis(30), "a wait after a poll", || {
        calls::block(Some(30));
        calls::yield_now();
    });
}
