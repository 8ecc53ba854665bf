//! The token: no wake-up is lost, whoever parks is made ready once, and sees what the waker did before.

use core::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::{Actor, explore, leak};
use crate::sync::AtomicU32;

/// So many wakers do something that the sleeper waits for.
fn wakers(count: usize) {
    let sleeper = Actor::new(0);
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
fn one_waker() {
    explore(5, || wakers(1));
}

#[test]
fn two_wakers() {
    explore(3, || wakers(2));
}

#[test]
fn two_waits() {
    explore(3, || {
        let sleeper = Actor::new(0);
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
