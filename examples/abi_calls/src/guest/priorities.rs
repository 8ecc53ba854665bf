//! What priorities mean on one CPU.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::calls;
use super::raw_thread;
use super::support::wait_until;

/// Everything happens here.
const CPU: isize = 0;

const LOW: u8 = 1;
const DRIVER: u8 = 5;
const MIDDLE: u8 = 7;
const HIGH: u8 = 20;

const ROUNDS: usize = 20;

/// In so many rounds the order may be another: lower priorities get a slice now and then.
const EXCEPTIONS: usize = 4;

/// How often the low priority must get time.
const TURNS: usize = 3;

pub(crate) fn priorities() {
    order();
    nobody_starves();
}

/// Who has run, in which order.
static ORDER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Who waits for being woken, by priority, has a number here.
static GATES: [AtomicU32; HIGH as usize + 1] = [const { AtomicU32::new(0) }; HIGH as usize + 1];

fn seen() -> Vec<u8> {
    ORDER.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts a thread that waits, and then notes that it runs.
fn waiter(priority: u8) -> u32 {
    let gate = &GATES[usize::from(priority)];
    gate.store(0, Ordering::SeqCst);
    let waiter = move || {
        gate.store(1, Ordering::SeqCst);
        while gate.load(Ordering::SeqCst) == 1 {
            // The number may have changed already.
            let _: calls::Answer = calls::futex_wait(Some(gate), 1, None, 0);
        }
        ORDER.lock().unwrap_or_else(PoisonError::into_inner).push(priority);
    };
    raw_thread::spawn(priority, CPU, waiter).expect("no thread was started")
}

/// Wakes those who wait, and says whether they came in the order of their priorities.
fn round() -> bool {
    ORDER.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let threads = [LOW, MIDDLE, HIGH].map(waiter);
    wait_until("waiters", || {
        calls::usleep(1000);
        [LOW, MIDDLE, HIGH].iter().all(|&priority| GATES[usize::from(priority)].load(Ordering::SeqCst) == 1)
    });
    // They are about to wait.
    calls::usleep(2000);
    let wake = |priority: u8| {
        let gate = &GATES[usize::from(priority)];
        gate.store(2, Ordering::SeqCst);
        let _: calls::Answer = calls::futex_wake(Some(gate), 1);
        seen()
    };
    let steps = [wake(LOW), wake(HIGH), wake(MIDDLE)];
    for thread in threads {
        assert_eq!(calls::join(thread), Ok(0));
    }
    let expected = [vec![], vec![HIGH], vec![HIGH, MIDDLE]];
    steps == expected && seen() == [HIGH, MIDDLE, LOW]
}

/// A thread that becomes ready runs at once if its priority is higher, and else waits.
fn order() {
    static RIGHT: AtomicUsize = AtomicUsize::new(0);
    let driver = raw_thread::spawn(DRIVER, CPU, || {
        for _ in 0..ROUNDS {
            RIGHT.fetch_add(usize::from(round()), Ordering::SeqCst);
        }
    });
    assert_eq!(calls::join(driver.expect("no thread was started")), Ok(0));
    let right = RIGHT.load(Ordering::SeqCst);
    assert!(right >= ROUNDS - EXCEPTIONS, "in only {right} of {ROUNDS} rounds priorities counted");
}

/// Beside a busy thread of high priority, one of low priority gets some time.
fn nobody_starves() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static PROGRESS: AtomicUsize = AtomicUsize::new(0);
    let low = raw_thread::spawn(0, CPU, || {
        while !STARTED.load(Ordering::SeqCst) {
            calls::usleep(1000);
        }
        for _ in 0..TURNS {
            PROGRESS.fetch_add(1, Ordering::SeqCst);
            calls::yield_now();
        }
    });
    let high = raw_thread::spawn(HIGH, CPU, || {
        STARTED.store(true, Ordering::SeqCst);
        wait_until("the thread of low priority", || PROGRESS.load(Ordering::SeqCst) >= TURNS);
    });
    for thread in [low, high] {
        assert_eq!(calls::join(thread.expect("no thread was started")), Ok(0));
    }
}
