//! Threads stop until they are let go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::PATIENCE;

/// How often two threads let each other go.
const ROUNDS: usize = 2_000;

pub(crate) fn park(_: &Settings) {
    // Being let go in advance counts, but only once.
    let start = Instant::now();
    thread::current().unpark();
    thread::current().unpark();
    thread::park();
    assert!(start.elapsed() < PATIENCE, "the leave to go on was lost");

    let (start, limit) = (Instant::now(), Duration::from_millis(30));
    // It may end early by the rules, but not each time.
    while start.elapsed() < limit {
        let rest = limit.saturating_sub(start.elapsed());
        let before = Instant::now();
        thread::park_timeout(rest);
        assert!(before.elapsed() < rest + PATIENCE, "a wait of {rest:?} took {:?}", before.elapsed());
    }
    hand_over();
    let_go_early();
}

/// Two threads take turns.
fn hand_over() {
    let turn = AtomicUsize::new(0);
    let play = |other: &thread::Thread, parity: usize| {
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
        let other = scope.spawn(|| play(&ours, 1));
        play(other.thread(), 0);
    });
    assert_eq!(turn.into_inner(), ROUNDS);
}

/// A long wait with a limit ends when somebody else ends it.
fn let_go_early() {
    let start = Instant::now();
    let waiting = thread::spawn(|| thread::park_timeout(10 * PATIENCE));
    thread::sleep(Duration::from_millis(10));
    waiting.thread().unpark();
    waiting.join().expect("the thread panicked");
    assert!(start.elapsed() < PATIENCE, "letting a thread go on took {:?}", start.elapsed());
}
