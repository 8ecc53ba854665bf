//! Concurrent callers see either no value or the whole value, and all see the same one.

use hermit_models::explore;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread::spawn;

use super::Once;

/// A value whose initialisers are counted.
struct Counted {
    once: Once<u32>,
    calls: AtomicU32,
}

impl Counted {
    fn leak() -> &'static Self {
        Box::leak(Box::new(Self { once: Once::new(), calls: AtomicU32::new(0) }))
    }

    /// Returns the value. The first caller makes the value from its number.
    fn call(&self, number: u32) -> u32 {
        *self.once.call_once(|| {
            self.calls.fetch_add(1, Relaxed);
            number
        })
    }
}

#[test]
fn callers_have_the_value_of_the_first() {
    explore(5, || {
        let counted = Counted::leak();
        let other = spawn(move || counted.call(1));
        let value = counted.call(2);
        assert_eq!(other.join().unwrap(), value);
        assert_eq!(counted.calls.load(Relaxed), 1);
    });
}

/// While a caller makes the value, a reader finds the whole value or none.
#[test]
fn value_is_whole_when_it_is_seen() {
    explore(5, || {
        let counted = Counted::leak();
        let reader = spawn(move || counted.once.get().copied());
        assert_eq!(counted.call(1), 1);
        assert!(reader.join().unwrap().is_none_or(|value| value == 1));
        assert_eq!(counted.once.get(), Some(&1));
    });
}

/// One caller fails. The other one waits for it and makes the value, or has made it before.
#[test]
fn caller_beside_one_that_fails_makes_the_value() {
    explore(5, || {
        let counted = Counted::leak();
        let failing = spawn(move || counted.once.try_call_once(|| Err::<u32, ()>(())).copied());
        assert_eq!(counted.call(2), 2);
        assert!(matches!(failing.join().unwrap(), Err(()) | Ok(2)));
        assert_eq!(counted.calls.load(Relaxed), 1);
    });
}
