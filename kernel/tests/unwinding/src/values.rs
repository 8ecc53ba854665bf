//! Values that unwinding drops, and state that it leaves.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, Once, RwLock};
use std::thread;

use crate::caught::outcome;

thread_local! {
    /// Values that were dropped, in order.
    static DROPPED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A value that notes when it is dropped.
struct Noted(&'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        let how = if thread::panicking() { "unwinding" } else { "returning" };
        DROPPED.with_borrow_mut(|dropped| dropped.push(format!("{} {how}", self.0)));
    }
}

/// Describes the values that a function drops, and its outcome.
fn dropped<T: std::fmt::Debug>(function: impl FnOnce() -> T) -> String {
    DROPPED.take();
    let outcome = outcome(AssertUnwindSafe(function));
    let dropped = DROPPED.take().join(", ");
    format!("{outcome}; {}", if dropped.is_empty() { "nothing" } else { &dropped })
}

pub(crate) fn rows() -> Vec<String> {
    vec![
        format!("dropped by a return: {}", dropped(|| two_values(false))),
        format!("dropped by a panic: {}", dropped(|| two_values(true))),
        format!("dropped in fields: {}", dropped(in_fields)),
        format!("dropped by a caught panic in a destructor: {}", dropped(in_a_destructor)),
        format!("dropped from a vector: {}", dropped(in_a_vector)),
        format!("not dropped: {}", dropped(forgotten)),
        format!("registers: {}", registers()),
        format!("a mutex: {}", mutex()),
        format!("a lock: {}", lock()),
        format!("once: {}", once()),
    ]
}

fn two_values(is_panicking: bool) {
    let _one = Noted("one");
    let _two = Noted("two");
    assert!(!is_panicking, "as asked for");
}

fn in_fields() {
    let _pair = (Noted("first"), [Noted("second"), Noted("third")]);
    panic!("fields")
}

/// Catches a panic in the destructor of a value, while nothing unwinds.
fn in_a_destructor() {
    struct Panicking(Noted);
    impl Drop for Panicking {
        fn drop(&mut self) {
            let caught = panic::catch_unwind(|| panic!("in a destructor"));
            assert!(caught.is_err(), "{}", self.0.0);
        }
    }
    drop(Panicking(Noted("field")));
}

/// A vector drops the elements that it has when making the next one panics.
fn in_a_vector() -> usize {
    let names = ["a", "b", "c"];
    let values: Vec<_> = names
        .iter()
        .map(|&name| {
            assert!(name != "c", "no c");
            Noted(name)
        })
        .collect();
    values.len()
}

fn forgotten() {
    let _kept = std::mem::ManuallyDrop::new(Noted("kept"));
    panic!("forgotten")
}

/// Values in registers that a callee preserves are those of before the call.
fn registers() -> f64 {
    let numbers: Vec<f64> = (1..=12).map(f64::from).map(std::hint::black_box).collect();
    let (mut sum, mut product) = (0.0, 1.0);
    for &number in &numbers {
        sum += number;
        if panic::catch_unwind(|| assert!(std::hint::black_box(number) < 0.5, "a number")).is_err() {
            product *= number;
        }
    }
    sum + product
}

/// A panic poisons the mutex that the thread holds, and its contents stay.
fn mutex() -> String {
    let mutex = Mutex::new(1);
    let outcome = outcome(|| {
        let mut guard = mutex.lock().map_err(|_| "poisoned before")?;
        *guard = 2;
        if *guard == 2 {
            panic!("with the mutex");
        }
        Ok::<_, &str>(())
    });
    let inside = mutex.lock().map_or_else(|poisoned| **poisoned.get_ref(), |_| 0);
    mutex.clear_poison();
    format!("{outcome}, with {inside}, poisoned after clear_poison: {}", mutex.is_poisoned())
}

/// Only a writer poisons a lock.
fn lock() -> String {
    let lock = RwLock::new(());
    let reader = outcome(|| {
        let _guard = lock.read();
        panic!("reading")
    });
    let after_reader = lock.is_poisoned();
    let writer = outcome(|| {
        let _guard = lock.write();
        panic!("writing")
    });
    format!("{reader}: {after_reader}, {writer}: {}", lock.is_poisoned())
}

fn once() -> String {
    let once = Once::new();
    let first = outcome(AssertUnwindSafe(|| once.call_once(|| panic!("once"))));
    let second = outcome(AssertUnwindSafe(|| once.call_once(|| ())));
    once.call_once_force(|state| assert!(state.is_poisoned(), "not poisoned"));
    format!("{first}, {second}, completed: {}", once.is_completed())
}
