//! What several checks need.

use std::thread;
use std::time::{Duration, Instant};

/// What must happen, happens within this time, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long something that must not happen is waited for.
pub(crate) const A_WHILE: Duration = Duration::from_millis(20);

/// Yields until the condition holds.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: still not after {:?}", start.elapsed());
        thread::yield_now();
    }
}

/// Does something that must take at least so long, and not for ever.
pub(crate) fn takes<R>(least: Duration, what: &str, action: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = action();
    let time = start.elapsed();
    assert!(time >= least, "{what} took {time:?}, less than {least:?}");
    assert!(time < least + PATIENCE, "{what} took {time:?}, {least:?} were asked for");
    result
}
