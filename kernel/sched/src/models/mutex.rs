//! The sleeping mutex: one thread holds it at a time, and no waiter is left behind.

extern crate std;

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::vec::Vec;

use hermit_base::sync::atomic::AtomicU32;
use loom::thread::spawn;

use super::futex::Futex;
use super::{ModelThread, explore, leak};
use crate::mutex::{lock_contended, try_lock, unlock};

pub(super) struct Mutex {
    waiters: &'static Futex,
    /// Data that the mutex protects: incremented without an atomic read-modify-write.
    count: AtomicU32,
}

impl Mutex {
    pub(super) fn new() -> Self {
        Self { waiters: Futex::new(), count: AtomicU32::new(0) }
    }

    /// Locks the mutex, increments the count, and unlocks the mutex.
    pub(super) fn increment(&self, thread: &'static ModelThread) {
        let futex = &self.waiters.value;
        if !try_lock(futex) {
            lock_contended(futex, |value| {
                thread.entity.count_sleep();
                self.waiters.wait_while(thread, || futex.load(SeqCst) == value);
            });
        }
        let count = self.count.load(Relaxed);
        self.count.store(count + 1, Relaxed);
        if unlock(futex) {
            self.waiters.wake_next();
        }
    }
}

fn increments(threads: usize, each: u32) {
    explore(3, move || {
        let mutex = leak(Mutex::new());
        let increment = move |number| {
            let thread = ModelThread::new(number);
            (0..each).for_each(|_| mutex.increment(thread));
        };
        let others: Vec<_> = (1..threads).map(|number| spawn(move || increment(number))).collect();
        increment(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(mutex.count.load(Relaxed) as usize, threads * each as usize);
    });
}

#[test]
fn two_threads_exclude_each_other() {
    increments(2, 2);
}

#[test]
fn no_waiter_of_three_threads_is_left_behind() {
    increments(3, 1);
}
