//! The park token: no wake-up is lost, a parked thread is made ready once, and sees what the waker did
//! before.

use core::sync::atomic::Ordering::Relaxed;

use hermit_base::sync::atomic::AtomicU32;
use loom::thread;

use super::{ModelThread, explore, leak};

/// Each of `count` wakers sets a flag for which the sleeper waits.
fn sleep_until_woken_by(count: usize) {
    let sleeper = ModelThread::new(0);
    let done: &'static [AtomicU32; 2] = leak([AtomicU32::new(0), AtomicU32::new(0)]);
    for done in &done[..count] {
        thread::spawn(move || {
            done.store(1, Relaxed);
            sleeper.wake();
        });
    }
    while done[..count].iter().any(|done| done.load(Relaxed) == 0) {
        sleeper.park();
    }
}

#[test]
fn unpark_by_one_waker_is_not_lost() {
    explore(5, || sleep_until_woken_by(1));
}

#[test]
fn unpark_by_two_wakers_is_not_lost() {
    explore(3, || sleep_until_woken_by(2));
}

#[test]
fn unpark_of_two_parks_in_a_row_is_not_lost() {
    explore(3, || {
        let sleeper = ModelThread::new(0);
        let step = leak(AtomicU32::new(0));
        let waker = thread::spawn(move || {
            for next in 1..=2 {
                step.store(next, Relaxed);
                sleeper.wake();
            }
        });
        for wanted in 1..=2 {
            while step.load(Relaxed) < wanted {
                sleeper.park();
            }
        }
        waker.join().unwrap();
    });
}
