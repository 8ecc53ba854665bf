//! Sleeping by `nanosleep` and `usleep`.

use std::time::Duration;

use hermit_abi::{EINVAL, timespec};

use super::calls;
use super::support::check_duration;

pub(crate) fn nanosleep() {
    for nanoseconds in [0, 1, 999, 1_000, 100_000, 1_000_000, 20_000_000] {
        let span = Duration::from_nanos(nanoseconds);
        let sleep = || calls::nanosleep(calls::timespec(span));
        assert_eq!(check_duration(span, "nanosleep", sleep), Ok(0));
    }
    for (tv_sec, tv_nsec) in [(0, 1_000_000_000), (0, -1), (-1, 0), (-1, 999_999_999), (1, i32::MIN)] {
        assert_eq!(calls::nanosleep(timespec { tv_sec, tv_nsec }), Err(EINVAL));
    }
    for microseconds in [0, 1, 500, 20_000] {
        check_duration(Duration::from_micros(microseconds), "usleep", || calls::usleep(microseconds));
    }
}
