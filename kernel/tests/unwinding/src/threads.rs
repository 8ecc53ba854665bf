//! Panics of threads, which only their `join` reports.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::thread;

use crate::caught::{outcome, text};

/// Number of threads that panic at the same time.
const THREADS: usize = 16;

pub(crate) fn rows() -> Vec<String> {
    vec![
        format!("join: {}", joined()),
        format!("join of a named thread: {}", named()),
        format!("a channel: {}", channel()),
        format!("a scope: {}", scope()),
        format!("a scope that joins: {}", scope_with_join()),
        format!("a mutex of a thread: {}", mutex()),
        format!("a condition variable: {}", condition_variable()),
        format!("thread-local values: {}", thread_local_values()),
        format!("{THREADS} at once: {}", at_once()),
        format!("one after the other: {}", in_turn(200)),
    ]
}

fn joined() -> String {
    let thread = thread::spawn(|| -> u32 { panic!("in a thread") });
    thread.join().map_or_else(|payload| text(&*payload), |number| number.to_string())
}

fn named() -> String {
    let thread = thread::Builder::new().name("worker".to_owned());
    let thread = thread.spawn(|| panic!("{}", thread::current().name().unwrap_or("no name")));
    match thread.map(thread::JoinHandle::join) {
        Ok(Err(payload)) => text(&*payload),
        _ => "no panic".to_owned(),
    }
}

/// Dropping the sender of a thread that panics ends the channel.
fn channel() -> String {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        for number in 0.. {
            assert!(number < 3, "three are enough");
            let _: Result<(), mpsc::SendError<i32>> = sender.send(number);
        }
    });
    let received: Vec<_> = receiver.iter().collect();
    format!("{received:?}, then an error: {}", thread.join().is_err())
}

fn scope() -> String {
    let count = AtomicUsize::new(0);
    let outcome = outcome(AssertUnwindSafe(|| {
        thread::scope(|scope| {
            scope.spawn(|| panic!("in a scope"));
            scope.spawn(|| count.fetch_add(1, Ordering::SeqCst));
        });
    }));
    format!("{outcome}, others {}", count.into_inner())
}

fn scope_with_join() -> String {
    outcome(|| thread::scope(|scope| scope.spawn(|| panic!("joined")).join().is_err()))
}

fn mutex() -> String {
    let mutex = Arc::new(Mutex::new(1));
    let other = Arc::clone(&mutex);
    let thread = thread::spawn(move || {
        let mut guard = other.lock().unwrap_or_else(PoisonError::into_inner);
        *guard += 1;
        panic!("with the mutex")
    });
    let is_err = thread.join().is_err();
    let text = match mutex.lock() {
        Ok(guard) => format!("clean, {guard}"),
        Err(poisoned) => format!("poisoned, {}", poisoned.get_ref()),
    };
    format!("{text}, {is_err}")
}

/// A thread waits for another, which notifies it by a destructor.
fn condition_variable() -> String {
    struct Notify(Arc<(Mutex<bool>, Condvar)>);
    impl Drop for Notify {
        fn drop(&mut self) {
            *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.0.1.notify_one();
        }
    }
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let notify = Notify(Arc::clone(&shared));
    let thread = thread::spawn(move || {
        let _notify = notify;
        panic!("notifies")
    });
    let mut is_done = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_done {
        is_done = shared.1.wait(is_done).unwrap_or_else(PoisonError::into_inner);
    }
    drop(is_done);
    format!("notified, {}, poisoned: {}", thread.join().is_err(), shared.0.is_poisoned())
}

/// A thread's own values are dropped after its panic.
fn thread_local_values() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            COUNT.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static VALUE: Counted = const { Counted });
    let thread = thread::spawn(|| VALUE.with(|_| panic!("with a value")));
    let _: thread::Result<()> = thread.join();
    COUNT.load(Ordering::SeqCst)
}

/// Threads that panic together.
fn at_once() -> usize {
    let barrier = Arc::new(Barrier::new(THREADS));
    let start = |number: usize| {
        let barrier = Arc::clone(&barrier);
        thread::spawn(move || {
            barrier.wait();
            panic::panic_any(number)
        })
    };
    let threads: Vec<thread::JoinHandle<()>> = (0..THREADS).map(start).collect();
    let payloads = threads.into_iter().filter_map(|thread| thread.join().err());
    payloads.filter_map(|payload| payload.downcast_ref::<usize>().copied()).sum()
}

/// Threads that panic, one after the other.
fn in_turn(times: usize) -> usize {
    let panics = |_: &usize| thread::spawn(|| panic!("again")).join().is_err();
    (0..times).filter(panics).count()
}
