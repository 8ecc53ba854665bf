//! Helper functions of the checks.

use std::thread;
use std::time::{Duration, Instant};

/// Time limit for anything that must happen, even on a busy host.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(150);

/// Time for which a check waits for something that must not happen.
pub(crate) const QUIET_TIME: Duration = Duration::from_millis(20);

/// Yields until the condition holds; panics after [`TIMEOUT`].
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "{what}: still not after {:?}", start.elapsed());
        thread::yield_now();
    }
}

/// Runs `action`, and checks that it takes at least `min` and less than `min` plus [`TIMEOUT`].
pub(crate) fn check_duration<R>(min: Duration, what: &str, action: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = action();
    let time = start.elapsed();
    assert!(time >= min, "{what} took {time:?}, less than {min:?}");
    assert!(time < min + TIMEOUT, "{what} took {time:?}, {min:?} were asked for");
    result
}
