//! Scheduling by priority on one CPU.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::calls;
use super::raw_thread;
use super::support::wait_until;

/// CPU of all threads.
const CPU: isize = 0;

const LOW: u8 = 1;
const DRIVER: u8 = 5;
const MIDDLE: u8 = 7;
const HIGH: u8 = 20;

const ROUNDS: usize = 20;

/// Number of rounds in which the order may differ, because threads of lower priority get a time slice now and
/// then.
const EXCEPTIONS: usize = 4;

/// Number of times that the thread of low priority must run.
const LOW_RUNS: usize = 3;

pub(crate) fn priorities() {
    order();
    low_priority_is_not_starved();
}

/// Priorities of the threads that have run, in order.
static ORDER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Futexes that the threads wait for, by priority.
static GATES: [AtomicU32; HIGH as usize + 1] = [const { AtomicU32::new(0) }; HIGH as usize + 1];

fn observed_order() -> Vec<u8> {
    ORDER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts a thread that waits, and then records that it runs.
fn waiter(priority: u8) -> u32 {
    let gate = &GATES[usize::from(priority)];
    gate.store(0, Ordering::SeqCst);
    let waiter = move || {
        gate.store(1, Ordering::SeqCst);
        while gate.load(Ordering::SeqCst) == 1 {
            // `EAGAIN` if the value has changed already.
            let _: calls::ErrnoResult = calls::futex_wait(Some(gate), 1, None, 0);
        }
        ORDER.lock().unwrap_or_else(PoisonError::into_inner).push(priority);
    };
    raw_thread::spawn(priority, CPU, waiter).expect("no thread was started")
}

/// Wakes the waiters. Returns true if they ran in the order of their priorities.
fn round() -> bool {
    ORDER.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let threads = [LOW, MIDDLE, HIGH].map(waiter);
    wait_until("waiters", || {
        calls::usleep(1000);
        [LOW, MIDDLE, HIGH].iter().all(|&priority| GATES[usize::from(priority)].load(Ordering::SeqCst) == 1)
    });
    // The threads are about to wait.
    calls::usleep(2000);
    let wake = |priority: u8| {
        let gate = &GATES[usize::from(priority)];
        gate.store(2, Ordering::SeqCst);
        let _: calls::ErrnoResult = calls::futex_wake(Some(gate), 1);
        observed_order()
    };
    let steps = [wake(LOW), wake(HIGH), wake(MIDDLE)];
    for thread in threads {
        assert_eq!(calls::join(thread), Ok(0));
    }
    let expected = [vec![], vec![HIGH], vec![HIGH, MIDDLE]];
    steps == expected && observed_order() == [HIGH, MIDDLE, LOW]
}

/// A thread that becomes ready preempts a thread of lower priority. If no thread of lower priority runs, it
/// waits.
fn order() {
    static IN_ORDER: AtomicUsize = AtomicUsize::new(0);
    let driver = raw_thread::spawn(DRIVER, CPU, || {
        for _ in 0..ROUNDS {
            IN_ORDER.fetch_add(usize::from(round()), Ordering::SeqCst);
        }
    });
    assert_eq!(calls::join(driver.expect("no thread was started")), Ok(0));
    let in_order = IN_ORDER.load(Ordering::SeqCst);
    assert!(in_order >= ROUNDS - EXCEPTIONS, "in only {in_order} of {ROUNDS} rounds priorities counted");
}

/// A thread of low priority gets a little time even while a thread of high priority is busy.
fn low_priority_is_not_starved() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static PROGRESS: AtomicUsize = AtomicUsize::new(0);
    let low = raw_thread::spawn(0, CPU, || {
        while !STARTED.load(Ordering::SeqCst) {
            calls::usleep(1000);
        }
        for _ in 0..LOW_RUNS {
            PROGRESS.fetch_add(1, Ordering::SeqCst);
            calls::yield_now();
        }
    });
    let high = raw_thread::spawn(HIGH, CPU, || {
        STARTED.store(true, Ordering::SeqCst);
        wait_until("the thread of low priority", || PROGRESS.load(Ordering::SeqCst) >= LOW_RUNS);
    });
    for thread in [low, high] {
        assert_eq!(calls::join(thread.expect("no thread was started")), Ok(0));
    }
}
