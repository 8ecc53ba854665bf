//! Mutexes keep others out; read-write locks let readers in together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::Duration;

use crate::arguments::Settings;
use crate::support::{cpus, in_threads, lock, wait_until};

/// Rounds of each thread.
const ROUNDS: u64 = 5_000;

/// Nobody sees the work of another half done.
pub(crate) fn mutex(_: &Settings) {
    let threads = cpus() + 3;
    let values = Mutex::new([0_u64; 9]);
    in_threads(threads, |index| {
        for round in 0..ROUNDS {
            let mut values = lock(&values);
            let first = values[0];
            assert!(values.iter().all(|&value| value == first), "two threads hold the lock: {values:?}");
            values.iter_mut().for_each(|value| *value += 1);
            // Now and then others find it taken for longer.
            if round % 1_000 == 0 && index % 2 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let total = ROUNDS * u64::try_from(threads).unwrap_or_default();
    assert_eq!(values.into_inner().unwrap_or_else(PoisonError::into_inner), [total; 9]);

    let mutex = Mutex::new(());
    let guard = lock(&mutex);
    let refused = || matches!(mutex.try_lock(), Err(TryLockError::WouldBlock));
    assert!(
        thread::scope(|scope| scope.spawn(refused).join()).is_ok_and(|refused| refused),
        "a taken lock was given"
    );
    drop(guard);
    assert!(mutex.try_lock().is_ok(), "a free lock was refused");
}

/// Writers are alone, readers are not, and neither waits for ever.
pub(crate) fn rwlock(_: &Settings) {
    let values = RwLock::new([0_u64; 9]);
    in_threads(cpus() + 3, |index| {
        for round in 0..ROUNDS {
            if round % 8 == 0 {
                let mut values = values.write().unwrap_or_else(PoisonError::into_inner);
                values.iter_mut().for_each(|value| *value += 1);
            } else {
                let values = values.read().unwrap_or_else(PoisonError::into_inner);
                assert!(values.iter().all(|value| *value == values[0]), "thread {index} reads {values:?}");
            }
        }
    });
    readers_meet();
    writer_gets_in();
}

/// Two readers are in at the same time, and a writer is not.
fn readers_meet() {
    let lock = RwLock::new(());
    let meeting = Barrier::new(2);
    in_threads(2, |_| {
        let guard = lock.read();
        meeting.wait();
        assert!(lock.try_write().is_err(), "a writer came in while readers were there");
        meeting.wait();
        drop(guard);
    });
    let guard = lock.write();
    assert!(lock.try_read().is_err(), "a reader came in while a writer was there");
    drop(guard);
}

/// Readers who are never all gone do not keep a writer out.
fn writer_gets_in() {
    let (lock, written) = (RwLock::new(false), AtomicBool::new(false));
    in_threads(4, |index| {
        if index == 0 {
            thread::sleep(Duration::from_millis(5));
            *lock.write().unwrap_or_else(PoisonError::into_inner) = true;
            written.store(true, Ordering::Release);
        } else {
            wait_until("a writer gets in", || {
                let guard = lock.read().unwrap_or_else(PoisonError::into_inner);
                (0..index * 100).for_each(|_| std::hint::spin_loop());
                drop(guard);
                written.load(Ordering::Acquire)
            });
        }
    });
}
