//! The wait queues of early ABI versions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hermit_abi::ETIMEDOUT;

use super::calls;
use super::support::{check_duration, wait_until};

const WAITERS: usize = 4;

const TURNS: usize = 1000;

pub(crate) fn queues() {
    let object = 0_u64;
    let id = (&raw const object).addr();
    assert_eq!(calls::init_queue(id), Ok(0));
    notification_before_wait(id);
    timeouts(id);
    notify_all(id);
    alternate(id);
    assert_eq!(calls::destroy_queue(id), Ok(0));
}

/// A notification between `add_queue` and `wait` is not lost.
fn notification_before_wait(id: usize) {
    for timeout in [-1, 0, 600_000_000_000] {
        assert_eq!(calls::add_queue(id, timeout), Ok(0));
        assert_eq!(calls::notify_queue(id, 1), Ok(0));
        assert_eq!(check_duration(Duration::ZERO, "a wait", || calls::wait_queue(id)), Ok(0));
    }
}

fn timeouts(id: usize) {
    // An earlier notification has no effect.
    assert_eq!(calls::notify_queue(id, -1), Ok(0));
    for nanoseconds in [1, 20_000_000] {
        let wait = || {
            let span = i64::try_from(nanoseconds).expect("that is not long");
            assert_eq!(calls::add_queue(id, span), Ok(0));
            calls::wait_queue(id)
        };
        assert_eq!(check_duration(Duration::from_nanos(nanoseconds), "a wait", wait), Err(ETIMEDOUT));
    }
}

fn notify_all(id: usize) {
    let (added, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                assert_eq!(calls::add_queue(id, -1), Ok(0));
                added.fetch_add(1, Ordering::SeqCst);
                assert_eq!(calls::wait_queue(id), Ok(0));
                returned.fetch_add(1, Ordering::SeqCst);
            });
        }
        wait_until("announcements", || added.load(Ordering::SeqCst) == WAITERS);
        assert_eq!(calls::notify_queue(id, -1), Ok(0));
    });
    assert_eq!(returned.into_inner(), WAITERS);
}

/// Two threads alternate.
fn alternate(id: usize) {
    let turn = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| take_turns(id, &turn, 1));
        take_turns(id, &turn, 0);
    });
}

fn take_turns(id: usize, turn: &AtomicUsize, own: usize) {
    for _ in 0..TURNS {
        // A thread that adds itself before it checks the condition misses no notification.
        while calls::add_queue(id, -1) == Ok(0) && turn.load(Ordering::SeqCst) != own {
            assert_eq!(calls::wait_queue(id), Ok(0));
        }
        turn.store(1 - own, Ordering::SeqCst);
        assert_eq!(calls::notify_queue(id, 1), Ok(0));
    }
}
