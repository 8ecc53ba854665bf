//! Threads park until they are unparked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::TIMEOUT;

/// Number of times that two threads unpark each other.
const ROUNDS: usize = 2_000;

pub(crate) fn park(_: &Settings) {
    // An early `unpark` is remembered, but only once.
    let start = Instant::now();
    thread::current().unpark();
    thread::current().unpark();
    thread::park();
    assert!(start.elapsed() < TIMEOUT, "the leave to go on was lost");

    let (start, limit) = (Instant::now(), Duration::from_millis(30));
    // Spurious wake-ups are allowed, but not each time.
    while start.elapsed() < limit {
        let rest = limit.saturating_sub(start.elapsed());
        let before = Instant::now();
        thread::park_timeout(rest);
        assert!(before.elapsed() < rest + TIMEOUT, "a wait of {rest:?} took {:?}", before.elapsed());
    }
    alternate();
    many();
    unpark_ends_timeout();
}

/// Two threads alternate.
fn alternate() {
    let turn = AtomicUsize::new(0);
    let take_turns = |other: &thread::Thread, parity: usize| {
        for round in (parity..ROUNDS).step_by(2) {
            while turn.load(Ordering::Acquire) != round {
                thread::park();
            }
            turn.store(round + 1, Ordering::Release);
            other.unpark();
        }
    };
    let ours = thread::current();
    thread::scope(|scope| {
        let other = scope.spawn(|| take_turns(&ours, 1));
        take_turns(other.thread(), 0);
    });
    assert_eq!(turn.into_inner(), ROUNDS);
}

/// More threads are parked at the same time than a kernel has wait queues, and go on one after the other.
fn many() {
    const COUNT: usize = 400;
    let (parked, gone_on) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let wait = |number: usize| {
            parked.fetch_add(1, Ordering::Release);
            // The last one goes on first.
            while gone_on.load(Ordering::Acquire) != COUNT - 1 - number {
                thread::park();
            }
            gone_on.fetch_add(1, Ordering::Release);
        };
        let threads: Vec<_> = (0..COUNT).map(|number| scope.spawn(move || wait(number))).collect();
        while parked.load(Ordering::Acquire) < COUNT {
            thread::yield_now();
        }
        for thread in threads.into_iter().rev() {
            thread.thread().unpark();
            thread.join().expect("the thread panicked");
        }
    });
    assert_eq!(gone_on.into_inner(), COUNT);
}

/// `unpark` ends a long `park_timeout`.
fn unpark_ends_timeout() {
    let start = Instant::now();
    let waiting = thread::spawn(|| thread::park_timeout(10 * TIMEOUT));
    thread::sleep(Duration::from_millis(10));
    waiting.thread().unpark();
    waiting.join().expect("the thread panicked");
    assert!(start.elapsed() < TIMEOUT, "letting a thread go on took {:?}", start.elapsed());
}
