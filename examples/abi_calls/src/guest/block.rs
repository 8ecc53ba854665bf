//! Waiting until another thread wakes this one by its number.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use hermit_abi::{POLLIN, pollfd};

use super::calls;
use super::eventfd::Counter;
use super::raw_thread::{self, ANY, NORMAL};
use super::support::{PATIENCE, takes, wait_until};

const ROUNDS: usize = 1000;

/// What the thread may do, and what it has done.
static ALLOWED: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn block() {
    rounds();
    timeouts();
    others_do_not_wake();
    // Nobody has these numbers.
    [0, 0xfffe, u32::MAX].into_iter().for_each(calls::wake);
}

/// A thread does a step each time it is woken; no wake is lost, at whatever moment it comes.
fn rounds() {
    let thread = raw_thread::spawn(NORMAL, ANY, || {
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
    let thread = raw_thread::spawn(NORMAL, ANY, || {
        for milliseconds in [0, 1, 30] {
            takes(Duration::from_millis(milliseconds), "a wait", || {
                calls::block(Some(milliseconds));
                calls::yield_now();
            });
        }
        STEP.store(1, Ordering::SeqCst);
        takes(Duration::ZERO, "a wait that another thread ends", || {
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
    takes(Duration::ZERO, "waking a thread", || {
        calls::wake(thread);
        assert_eq!(calls::join(thread), Ok(0));
    });
    assert!(PATIENCE < Duration::from_millis(600_000), "its own timeout would do");
}

/// What the thread waited for before does not end its wait.
fn others_do_not_wake() {
    let counter = Counter::new(0, 0);
    let mut entries = [pollfd { fd: counter.0, events: POLLIN, revents: 0 }];
    assert_eq!(calls::poll(&mut entries, 1), Ok(0));
    assert_eq!(counter.write(1), Ok(8));
    takes(Duration::from_millis(30), "a wait after a poll", || {
        calls::block(Some(30));
        calls::yield_now();
    });
}
