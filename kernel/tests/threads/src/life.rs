//! Threads start, have names, return values, and end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Builder};

use crate::arguments::Settings;
use crate::support::{lock, wait_until, wait_while};

/// Default number of threads of `many`.
const MANY: usize = 10_000;

/// `join` returns a thread's value, in any order of joining; a detached thread runs, too.
pub(crate) fn spawn_join(_: &Settings) {
    let threads: Vec<_> = (0..100_usize).map(|index| thread::spawn(move || vec![index; index])).collect();
    let ids: HashSet<_> = threads.iter().map(|thread| thread.thread().id()).collect();
    assert_eq!(ids.len(), 100, "threads have the same identity");
    for (index, thread) in threads.into_iter().enumerate().rev() {
        assert_eq!(thread.join().expect("a thread panicked"), vec![index; index]);
    }

    let large = thread::spawn(|| [7_u8; 10_000]).join().expect("a thread panicked");
    assert!(large.iter().all(|&byte| byte == 7), "a large value is damaged");
    let nested = thread::spawn(|| thread::spawn(|| thread::current().id()).join());
    assert!(nested.join().expect("a thread panicked").is_ok(), "a thread's thread panicked");

    let done = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&done);
    let waiting =
        thread::spawn(move || wait_until("the detached thread runs", || theirs.load(Ordering::Acquire)));
    let theirs = Arc::clone(&done);
    drop(thread::spawn(move || theirs.store(true, Ordering::Release)));
    wait_until("a thread is seen to have finished", || waiting.is_finished());
    waiting.join().expect("a thread panicked");
}

/// Very many threads exist at the same time.
pub(crate) fn many(settings: &Settings) {
    let count = settings.number.unwrap_or(MANY);
    let state = Mutex::new((0, false));
    let (arrived, opened) = (Condvar::new(), Condvar::new());
    let sum = AtomicUsize::new(0);
    let wait = |index: usize| {
        lock(&state).0 += 1;
        arrived.notify_one();
        drop(wait_while(&opened, &state, |state| !state.1));
        sum.fetch_add(index, Ordering::Relaxed);
    };
    let wait = &wait;
    thread::scope(|scope| {
        for index in 0..count {
            let thread = Builder::new().stack_size(64 << 10).spawn_scoped(scope, move || wait(index));
            thread.unwrap_or_else(|error| panic!("thread {index} cannot start: {error}"));
        }
        wait_while(&arrived, &state, |state| state.0 < count).1 = true;
        opened.notify_all();
    });
    assert_eq!(sum.into_inner(), (0..count).sum(), "not every thread ran to its end");
}

/// A thread has the name that it was given, or none.
pub(crate) fn names(_: &Settings) {
    for name in ["", "a", "a name with blanks", "ü€\u{1f980}", &"long".repeat(100)] {
        let named =
            Builder::new().name(name.to_owned()).spawn(|| thread::current().name().map(str::to_owned));
        let named = named.expect("the thread cannot start");
        assert_eq!(named.thread().name(), Some(name));
        assert_eq!(named.join().expect("the thread panicked").as_deref(), Some(name));
    }
    let nameless = thread::spawn(|| thread::current().name().map(str::to_owned));
    assert_eq!(nameless.join().expect("the thread panicked"), None);
}

/// Scoped threads borrow and change values on their parent's stack.
pub(crate) fn scoped(_: &Settings) {
    let mut values = vec![0_usize; 1_000];
    let base = 7;
    thread::scope(|scope| {
        for (index, part) in values.chunks_mut(100).enumerate() {
            scope.spawn(move || part.iter_mut().for_each(|value| *value = index + base));
        }
    });
    assert!(values.iter().enumerate().all(|(index, &value)| value == index / 100 + base), "wrong values");

    let sum: usize = thread::scope(|outer| {
        let halves = values.chunks(500).map(|half| {
            outer.spawn(move || {
                thread::scope(|inner| inner.spawn(|| half.iter().sum::<usize>()).join().expect("it panicked"))
            })
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().map(|half| half.join().expect("a thread panicked")).sum()
    });
    assert_eq!(sum, values.iter().sum());
}
