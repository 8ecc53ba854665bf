//! Threads wait on condition variables and barriers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{TIMEOUT, cpus, in_threads, lock, wait_while};

/// Number of items that each thread queues.
const ITEMS: usize = 2_000;

/// Capacity of the queue.
const CAPACITY: usize = 5;

/// Notifications reach one thread or all threads, and end waits with a time limit, which else time out.
pub(crate) fn condvar(_: &Settings) {
    queue();
    notify_all();
    wait_timeouts();
}

/// Producers and consumers share a queue that is mostly full or empty.
fn queue() {
    let queue = Mutex::new(VecDeque::new());
    let (filled, emptied) = (Condvar::new(), Condvar::new());
    let sum = AtomicUsize::new(0);
    let pairs = cpus() + 1;
    in_threads(2 * pairs, |index| {
        for item in 0..ITEMS {
            if index % 2 == 0 {
                let full = |queue: &mut VecDeque<usize>| queue.len() >= CAPACITY;
                wait_while(&emptied, &queue, full).push_back(item);
                filled.notify_one();
            } else {
                let empty = |queue: &mut VecDeque<usize>| queue.is_empty();
                let item = wait_while(&filled, &queue, empty).pop_front();
                sum.fetch_add(item.expect("the queue was empty after all"), Ordering::Relaxed);
                emptied.notify_one();
            }
        }
    });
    assert_eq!(sum.into_inner(), pairs * (0..ITEMS).sum::<usize>(), "items were lost");
}

/// `notify_all` wakes all waiting threads.
fn notify_all() {
    let state = Mutex::new((0, false));
    let (arrived, opened) = (Condvar::new(), Condvar::new());
    in_threads(40, |index| {
        if index == 0 {
            wait_while(&arrived, &state, |state| state.0 < 39).1 = true;
            opened.notify_all();
        } else {
            lock(&state).0 += 1;
            arrived.notify_one();
            drop(wait_while(&opened, &state, |state| !state.1));
        }
    });
}

/// A wait ends at its time limit and not before, unless it is notified.
fn wait_timeouts() {
    let (state, changed) = (Mutex::new(false), Condvar::new());
    for limit in [0, 1, 30].map(Duration::from_millis) {
        let start = Instant::now();
        let (guard, result) = changed
            .wait_timeout_while(lock(&state), limit, |happened| !*happened)
            .unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        assert!(result.timed_out(), "nothing happened, and yet the wait ended");
        assert!(start.elapsed() >= limit, "a wait of {limit:?} took only {:?}", start.elapsed());
    }
    let start = Instant::now();
    in_threads(2, |index| {
        if index == 0 {
            thread::sleep(Duration::from_millis(10));
            *lock(&state) = true;
            changed.notify_one();
            return;
        }
        let (guard, result) = changed
            .wait_timeout_while(lock(&state), 10 * TIMEOUT, |happened| !*happened)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(*guard && !result.timed_out(), "a wait was not ended by what it waited for");
    });
    assert!(start.elapsed() < TIMEOUT, "a notification took {:?}", start.elapsed());
}

/// No thread passes a barrier before all have arrived, and exactly one is the leader.
pub(crate) fn barrier(_: &Settings) {
    let threads = cpus() + 2;
    let (barrier, arrived, leaders) = (Barrier::new(threads), AtomicUsize::new(0), AtomicUsize::new(0));
    in_threads(threads, |_| {
        for round in 1..=200 {
            arrived.fetch_add(1, Ordering::AcqRel);
            if barrier.wait().is_leader() {
                leaders.fetch_add(1, Ordering::AcqRel);
            }
            let (arrived, led) = (arrived.load(Ordering::Acquire), leaders.load(Ordering::Acquire));
            assert!(arrived >= round * threads, "{arrived} had come in round {round}");
            assert!(led <= round, "{led} leaders in {round} rounds");
            barrier.wait();
        }
    });
    assert_eq!(leaders.into_inner(), 200, "there is one leader for each round");
}
