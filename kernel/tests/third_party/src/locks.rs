//! parking_lot and dashmap: locks other than std's, and a concurrent map.

use std::thread;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::{Condvar, Mutex, Once, RwLock};

use crate::{TestResult, digest, ensure, numbers};

const THREADS: u64 = 4;
const ROUNDS: u64 = 2_000;

/// Number of waits of 20 ms after which the CPU must have been idle for 10 ms.
#[cfg(target_os = "hermit")]
const MAX_WAITS: u32 = 100;

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
    #[cfg(target_os = "hermit")]
    leaves_its_cpu_idle()?;
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

/// A thread that waits sleeps: the machine's only CPU becomes idle.
#[cfg(target_os = "hermit")]
fn leaves_its_cpu_idle() -> Result<(), Box<dyn std::error::Error>> {
    if thread::available_parallelism()?.get() > 1 {
        return Ok(());
    }
    let idle =
        || std::fs::read_to_string("/proc/uptime").map(|text| text.split(' ').nth(1).map(str::to_owned));
    let (lock, never, before) = (Mutex::new(()), Condvar::new(), idle()?);
    for _ in 0..MAX_WAITS {
        never.wait_for(&mut lock.lock(), Duration::from_millis(20));
        if idle()? != before {
            return Ok(());
        }
    }
    Err("waiting threads spin".into())
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
