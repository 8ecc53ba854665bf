//! Mutexes exclude other threads; read-write locks admit several readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock, TryLockError};
use std::thread;
use std::time::Duration;

use crate::arguments::Settings;
use crate::support::{cpus, in_threads, lock, wait_until};

/// Number of rounds of each thread.
const ROUNDS: u64 = 5_000;

/// A mutex excludes all other threads: none sees a partial change.
pub(crate) fn mutex(_: &Settings) {
    let threads = cpus() + 3;
    let values = Mutex::new([0_u64; 9]);
    in_threads(threads, |index| {
        for round in 0..ROUNDS {
            let mut values = lock(&values);
            let first = values[0];
            assert!(values.iter().all(|&value| value == first), "two threads hold the lock: {values:?}");
            values.iter_mut().for_each(|value| *value += 1);
            // Sometimes the lock is held for longer.
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

/// A writer excludes all other threads, readers share the lock, and neither starves.
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
    readers_share_the_lock();
    writer_is_not_starved();
}

/// Two readers hold the lock at the same time, and exclude a writer.
fn readers_share_the_lock() {
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

/// A continuous sequence of readers does not starve a writer.
fn writer_is_not_starved() {
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
