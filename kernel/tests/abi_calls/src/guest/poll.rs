//! Polling several descriptors.

use std::thread;
use std::time::Duration;

use hermit_abi::{POLLIN, POLLNVAL, POLLOUT, pollfd};

use super::calls;
use super::eventfd::EventFd;
use super::support::{QUIET_TIME, check_duration};

/// A timeout beyond the time limit of the checks, in milliseconds.
const LONG_TIMEOUT_MS: i32 = 600_000;

fn entry(fd: i32, events: i16) -> pollfd {
    pollfd { fd, events, revents: -1 }
}

pub(crate) fn poll() {
    ready_events();
    timeouts();
    woken();
}

fn ready_events() {
    let (empty, full) = (EventFd::new(0, 0), EventFd::new(u64::MAX - 1, 0));
    let both = POLLIN | POLLOUT;
    let mut entries = [entry(empty.0, both), entry(full.0, both), entry(-1, both), entry(9999, both)];
    assert_eq!(calls::poll(&mut entries, LONG_TIMEOUT_MS), Ok(3));
    assert_eq!(entries.map(|entry| entry.revents), [POLLOUT, POLLIN, 0, POLLNVAL]);
    // Only requested events are reported.
    let mut entries = [entry(empty.0, POLLIN), entry(full.0, POLLOUT)];
    assert_eq!(calls::poll(&mut entries, 0), Ok(0));
    assert_eq!(entries.map(|entry| entry.revents), [0, 0]);
}

fn timeouts() {
    let empty = EventFd::new(0, 0);
    for milliseconds in [0, 1, 30] {
        let min = Duration::from_millis(milliseconds);
        let milliseconds = i32::try_from(milliseconds).expect("that is not much");
        let poll = || calls::poll(&mut [entry(empty.0, POLLIN)], milliseconds);
        assert_eq!(check_duration(min, "poll", poll), Ok(0));
    }
    check_duration(QUIET_TIME, "poll for nothing", || assert_eq!(calls::poll(&mut [], 20), Ok(0)));
}

fn woken() {
    let counters = [(); 3].map(|()| EventFd::new(0, 0));
    for timeout in [LONG_TIMEOUT_MS, -1] {
        (0..counters.len()).for_each(|index| woken_by(&counters, index, timeout));
    }
}

/// Another thread makes one of the descriptors ready.
fn woken_by(counters: &[EventFd; 3], index: usize, timeout: i32) {
    let mut entries = [0, 1, 2].map(|index| entry(counters[index].0, POLLIN));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(QUIET_TIME);
            assert_eq!(counters[index].write(1), Ok(8));
        });
        let poll = || calls::poll(&mut entries, timeout);
        assert_eq!(check_duration(Duration::ZERO, "poll", poll), Ok(1));
    });
    for (other, entry) in entries.iter().enumerate() {
        assert_eq!(entry.revents, if other == index { POLLIN } else { 0 }, "entry {other}");
    }
    assert_eq!(counters[index].read(), Ok(1));
}
