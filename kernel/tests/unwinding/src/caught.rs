//! Panics that the same thread catches.

use std::any::Any;
use std::hint;
use std::panic::{self, AssertUnwindSafe, Location, UnwindSafe};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A payload that is no text.
#[derive(Debug)]
struct Payload(u32);

/// The text of a payload.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        format!("&str {text:?}")
    } else if let Some(text) = payload.downcast_ref::<String>() {
        format!("String {text:?}")
    } else if let Some(Payload(number)) = payload.downcast_ref() {
        format!("Payload {number}")
    } else {
        "unknown".to_owned()
    }
}

/// Describes the value that a function returns, or its panic message.
pub(crate) fn outcome<T: std::fmt::Debug>(function: impl FnOnce() -> T + UnwindSafe) -> String {
    match panic::catch_unwind(function) {
        Ok(value) => format!("returned {value:?}"),
        Err(payload) => format!("caught {}", text(&*payload)),
    }
}

/// A number that the compiler does not know.
fn unknown(number: usize) -> usize {
    hint::black_box(number)
}

pub(crate) fn rows() -> Vec<String> {
    let zero = unknown(0);
    let array = [1_u8, 2, 3];
    let nothing = array.get(unknown(3)).copied();
    let failure = array.get(unknown(3)).ok_or("the reason");
    vec![
        format!("no panic: {}", outcome(|| 7)),
        format!("a literal: {}", outcome(|| panic!("literal"))),
        format!("a formatted text: {}", outcome(|| panic!("number {}", unknown(5)))),
        format!("a value: {}", outcome(|| panic::panic_any(Payload(9)))),
        format!("an assertion: {}", outcome(|| assert_eq!(unknown(1), 2, "sum"))),
        format!("an index: {}", outcome(|| array[unknown(3)])),
        format!("a division: {}", outcome(|| 1 / zero)),
        format!("None: {}", outcome(|| nothing.expect("there is one"))),
        format!("Err: {}", outcome(|| failure.expect("no error"))),
        format!("a RefCell: {}", outcome(borrowed_twice)),
        format!("a slice of a string: {}", outcome(|| "\u{20ac}"[unknown(1)..].len())),
        format!("resumed: {}", outcome(|| resumed("first"))),
        format!("nested: {}", outcome(nested)),
        format!("an error code across C: {}", outcome(|| across_c(3))),
        format!("a deep stack: {}", outcome(|| deep(unknown(1000)))),
        format!("a lazy value: {}", lazy()),
        format!("a comparison while sorting: {}", outcome(sorting)),
        format!("caller: {}", outcome(caller)),
        format!("again and again: {}", again(10_000)),
    ]
}

fn borrowed_twice() -> bool {
    let cell = std::cell::RefCell::new(1);
    let first = cell.borrow_mut();
    let second = cell.borrow_mut();
    *first == *second
}

/// Catches a panic and goes on with it.
fn resumed(name: &'static str) {
    let Err(payload) = panic::catch_unwind(|| panic::panic_any(name));
    panic::resume_unwind(payload)
}

/// Panics in a function that is called while a panic is caught.
fn nested() -> String {
    let inner = panic::catch_unwind(|| {
        let caught = outcome(|| panic!("innermost"));
        panic!("after {caught}")
    });
    inner.map_or_else(|payload| format!("inner {}", text(&*payload)), |()| "nothing".to_owned())
}

/// Unwinds a function with the calling convention of C that allows it.
extern "C-unwind" fn across_c(number: u32) {
    panic::panic_any(Payload(number));
}

/// Recurses with something to drop in each call.
fn deep(depth: usize) -> usize {
    let kept = Box::new(depth);
    assert!(depth > 0, "the bottom");
    deep(depth - 1) + *kept
}

/// A lazy value whose first use panics is unusable.
fn lazy() -> String {
    let value: LazyLock<u32> = LazyLock::new(|| panic!("no value"));
    let first = outcome(AssertUnwindSafe(|| *value));
    format!("{first}, then {}", outcome(AssertUnwindSafe(|| *value)))
}

/// A comparison that panics leaves a vector with all its elements.
fn sorting() -> Vec<u32> {
    let mut numbers: Vec<_> = (0..50).rev().map(Box::new).collect();
    let mut left = 20;
    let sorted = panic::catch_unwind(AssertUnwindSafe(|| {
        numbers.sort_by(|one, two| {
            left -= 1;
            assert!(left > 0, "enough");
            one.cmp(two)
        });
    }));
    let mut all: Vec<u32> = numbers.into_iter().map(|number| *number).collect();
    all.sort_unstable();
    vec![u32::from(sorted.is_err()), u32::try_from(all.len()).unwrap_or(0), all[0], all[49]]
}

/// The hook knows where the panic was, and its message.
fn caller() -> String {
    let seen = Arc::new(Mutex::new(String::new()));
    let hook = panic::take_hook();
    let place = Arc::clone(&seen);
    panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("nowhere", Location::file).replace('\\', "/");
        let file = file.rsplit('/').next().unwrap_or_default().to_owned();
        let message = info.payload_as_str().unwrap_or("none").to_owned();
        *place.lock().unwrap_or_else(PoisonError::into_inner) = format!("{file}: {message}");
    }));
    let caught = outcome(|| panic!("where"));
    panic::set_hook(hook);
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    format!("{caught} in {seen}")
}

/// Number of times that a panic is caught.
fn again(times: usize) -> usize {
    (0..times).filter(|&number| panic::catch_unwind(|| panic::panic_any(number)).is_err()).count()
}
