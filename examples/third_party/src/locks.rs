//! parking_lot and dashmap: locks other than std's, and a concurrent map.

use std::thread;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::{Condvar, Mutex, Once, RwLock};

use crate::{TestResult, digest, ensure, numbers};

const THREADS: u64 = 4;
const ROUNDS: u64 = 2_000;

pub(crate) fn parking_lot() -> TestResult {
    let (counter, table) = (Mutex::new(0_u64), RwLock::new(vec![0_u64; 16]));
    let once = Once::new();
    let starts = Mutex::new(0);
    let work = |thread: u64| {
        once.call_once(|| *starts.lock() += 1);
        for round in 0..ROUNDS {
            *counter.lock() += round;
            if round % 16 == thread {
                table.write().iter_mut().for_each(|value| *value += 1);
            } else {
                let table = table.read();
                assert!(table.iter().all(|value| *value == table[0]), "a reader saw half a change");
            }
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    ensure(*starts.lock() == 1, || "once was not once".to_owned())?;
    let handed = alternate()?;
    Ok(digest(&(counter.into_inner(), table.into_inner(), handed)))
}

/// Two threads alternate by a condition variable; the last wait times out.
fn alternate() -> Result<u64, String> {
    let (turn, changed) = (Mutex::new(0_u64), Condvar::new());
    let take_turns = |parity| {
        let mut turn = turn.lock();
        while *turn < ROUNDS {
            if *turn % 2 == parity {
                *turn += 1;
                changed.notify_one();
            } else {
                changed.wait(&mut turn);
            }
        }
        changed.notify_one();
    };
    thread::scope(|scope| {
        scope.spawn(|| take_turns(0));
        take_turns(1);
    });
    let mut turn = turn.lock();
    let result = changed.wait_for(&mut turn, Duration::from_millis(5));
    ensure(result.timed_out(), || "the wait ended without a notification".to_owned())?;
    Ok(*turn)
}

pub(crate) fn dashmap() -> TestResult {
    let map = DashMap::new();
    let work = |thread: u64| {
        for number in numbers(thread).take(5_000) {
            *map.entry(number % 1_000).or_insert(0_u64) += u64::from(number);
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    map.retain(|key, _| key % 7 != 0);
    let mut entries: Vec<(u32, u64)> = map.into_iter().collect();
    entries.sort_unstable();
    Ok(digest(&entries))
}
