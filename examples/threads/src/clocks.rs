//! Time goes forward, on every CPU, and sleep is long enough.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::arguments::Settings;
use crate::support::{PATIENCE, cpus, in_threads, lock};

/// Readings of each thread.
const READINGS: usize = 20_000;

/// A time that one thread has read has passed for every other one.
pub(crate) fn clocks(_: &Settings) {
    let start = Instant::now();
    let (last, elapsed, date) = (Mutex::new(start), AtomicU64::new(0), AtomicU64::new(0));
    in_threads(2 * cpus() + 1, |_| {
        for _ in 0..READINGS {
            in_order("Instant", &elapsed, || nanoseconds(start.elapsed()));
            in_order("SystemTime", &date, since_epoch);
            let mut last = lock(&last);
            let now = Instant::now();
            assert!(now >= *last, "Instant went back by {:?}", *last - now);
            *last = now;
        }
    });
    same_speed();
}

/// Compares with the latest time that anybody has read.
fn in_order(clock: &str, latest: &AtomicU64, read: impl Fn() -> u64) {
    let before = latest.load(Ordering::SeqCst);
    let now = read();
    assert!(now >= before, "{clock} went back by {} ns", before - now);
    latest.fetch_max(now, Ordering::SeqCst);
}

/// Both clocks show the same time passing.
fn same_speed() {
    let (instant, date) = (Instant::now(), since_epoch());
    thread::sleep(Duration::from_millis(100));
    let (by_date, by_instant) = (since_epoch() - date, nanoseconds(instant.elapsed()));
    let difference = by_date.abs_diff(by_instant);
    assert!(difference < 50_000_000, "{by_instant} ns by Instant are {by_date} ns by SystemTime");
}

fn since_epoch() -> u64 {
    nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).expect("the date is before 1970"))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("that is 500 years")
}

/// Sleep is never too short; the number is that of repetitions.
pub(crate) fn sleep(settings: &Settings) {
    for _ in 0..settings.number.unwrap_or(10) {
        (0..=50).for_each(|micros| sleep_for(Duration::from_micros(micros)));
        sleep_for(Duration::from_nanos(1));
    }
    [1, 2, 5, 10, 100].into_iter().for_each(|millis| sleep_for(Duration::from_millis(millis)));
}

fn sleep_for(duration: Duration) {
    let start = Instant::now();
    thread::sleep(duration);
    let slept = start.elapsed();
    assert!(slept >= duration, "{duration:?} of sleep took only {slept:?}");
    assert!(slept < duration + PATIENCE, "{duration:?} of sleep took {slept:?}");
}

/// Sleepers do not hold up each other: all together take hardly longer than the one that sleeps longest.
pub(crate) fn sleep_together(settings: &Settings) {
    let start = Instant::now();
    let count = settings.number.unwrap_or(100);
    // One after the other, they would sleep for longer than anybody has patience.
    let time = |index: usize| Duration::from_millis(300 + u64::try_from(index % 37).unwrap_or_default() * 5);
    in_threads(count, |index| sleep_for(time(index)));
    let all = start.elapsed();
    let one_by_one: Duration = (0..count).map(time).sum();
    assert!(all < one_by_one / 2, "{count} threads, sleeping at the same time, took {all:?}");
}

/// How long `tick` prints.
const TICKING: Duration = Duration::from_secs(10);

/// Prints the time that has passed, in nanoseconds, twenty times a second, for somebody with another clock.
pub(crate) fn tick(_: &Settings) {
    let start = Instant::now();
    while start.elapsed() < TICKING {
        println!("tick {}", nanoseconds(start.elapsed()));
        thread::sleep(Duration::from_millis(50));
    }
}
