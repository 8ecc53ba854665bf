//! Runs the other checks concurrently and in random order, for a given time.

use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{Random, cpus, in_threads};
use crate::{Check, channels, clocks, life, local, locks, memory, once, parking, waiting};

/// Default duration in seconds.
const DEFAULT_SECONDS: u64 = 5;

/// The checks: none that uses all memory or all CPUs.
const MIX: [Check; 15] = [
    channels::mpsc,
    channels::sync_channel,
    clocks::sleep,
    life::many,
    life::names,
    life::scoped,
    life::spawn_join,
    local::tls,
    locks::mutex,
    locks::rwlock,
    memory::allocate,
    once::once,
    parking::park,
    waiting::barrier,
    waiting::condvar,
];

pub(crate) fn stress(settings: &Settings) {
    let (start, time) = (Instant::now(), Duration::from_secs(settings.seconds.unwrap_or(DEFAULT_SECONDS)));
    let quick = Settings { number: Some(30), ..Settings::default() };
    in_threads(cpus() + 2, |index| {
        let mut random = Random::new(index);
        while start.elapsed() < time {
            MIX[random.below(MIX.len())](&quick);
        }
    });
}
