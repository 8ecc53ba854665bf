//! Clocks are monotonic across CPUs, follow the host, and sleeps are long enough.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::arguments::Settings;
use crate::support::{TIMEOUT, cpus, in_threads, lock};

/// Number of readings of each thread.
const READINGS: usize = 20_000;

/// Number of readings of two clocks. The best one counts.
const READINGS_OF_BOTH: usize = 10;

/// No thread reads a time before one that another thread has read.
pub(crate) fn clocks(_: &Settings) {
    let start = Instant::now();
    let (last, elapsed, date) = (Mutex::new(start), AtomicU64::new(0), AtomicU64::new(0));
    in_threads(2 * cpus() + 1, |_| {
        for _ in 0..READINGS {
            check_monotonic("Instant", &elapsed, || nanoseconds(start.elapsed()));
            check_monotonic("SystemTime", &date, since_epoch);
            let mut last = lock(&last);
            let now = Instant::now();
            assert!(now >= *last, "Instant went back by {:?}", *last - now);
            *last = now;
        }
    });
    check_same_rate();
}

/// Checks that a reading is not before the latest one of all threads.
fn check_monotonic(clock: &str, latest: &AtomicU64, read: impl Fn() -> u64) {
    let before = latest.load(Ordering::SeqCst);
    let now = read();
    assert!(now >= before, "{clock} went back by {} ns", before - now);
    latest.fetch_max(now, Ordering::SeqCst);
}

/// Both clocks run at the same rate.
fn check_same_rate() {
    let start = Instant::now();
    let first = ahead(start);
    thread::sleep(Duration::from_millis(100));
    let difference = ahead(start) - first;
    assert!(difference.abs() < 50_000_000, "SystemTime has gained {difference} ns in {:?}", start.elapsed());
}

/// By how many nanoseconds the wall clock is ahead of the time since `start`. The reading for which this
/// thread was delayed least counts: the host may run other programs between two clocks.
fn ahead(start: Instant) -> i128 {
    let readings = (0..READINGS_OF_BOTH).map(|_| {
        let before = nanoseconds(start.elapsed());
        let date = since_epoch();
        let delay = nanoseconds(start.elapsed()) - before;
        (delay, i128::from(date) - i128::from(before))
    });
    readings.min_by_key(|(delay, _)| *delay).expect("there are readings").1
}

fn since_epoch() -> u64 {
    nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).expect("the date is before 1970"))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("that is 500 years")
}

/// No sleep is too short; the number is that of repetitions.
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
    assert!(slept < duration + TIMEOUT, "{duration:?} of sleep took {slept:?}");
}

/// Number of times that `sleep_together` runs at most, with sleeps that are four times as long each time: a
/// slow machine takes seconds to start the threads.
const MAX_ATTEMPTS: u32 = 3;

/// Sleeps are concurrent: all of them together take hardly longer than the longest.
pub(crate) fn sleep_together(settings: &Settings) {
    let count = settings.number.unwrap_or(100);
    for attempt in 0..MAX_ATTEMPTS {
        let unit = Duration::from_millis(5) * 4_u32.pow(attempt);
        let time = |index: usize| unit * (60 + u32::try_from(index % 37).unwrap_or_default());
        let start = Instant::now();
        in_threads(count, |index| sleep_for(time(index)));
        let all = start.elapsed();
        let one_by_one: Duration = (0..count).map(time).sum();
        if all < one_by_one / 2 {
            return;
        }
        println!("{count} threads, sleeping for {one_by_one:?} at the same time, took {all:?}");
    }
    panic!("threads do not sleep at the same time");
}

/// Duration of `tick`.
const TICK_DURATION: Duration = Duration::from_secs(10);

/// Prints the elapsed time in nanoseconds twenty times a second, to be compared with another clock.
pub(crate) fn tick(_: &Settings) {
    let start = Instant::now();
    while start.elapsed() < TICK_DURATION {
        // Makes the kernel correct its clocks.
        let _date: u64 = since_epoch();
        println!("tick {}", nanoseconds(start.elapsed()));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Time limit of `clock_step`: less than the steps of its tests.
const MAX_WAIT: Duration = Duration::from_secs(1_000);

/// Minimum step of the wall clock that `clock_step` waits for.
const MIN_STEP: Duration = Duration::from_secs(2);

/// Waits until the host's wall clock is set, and prints by how many milliseconds the wall clock has stepped
/// after that. The other clock does not step.
pub(crate) fn clock_step(_: &Settings) {
    let milliseconds = |nanoseconds: i128| nanoseconds / 1_000_000;
    let start = Instant::now();
    let (first, mut last) = (ahead(start), Duration::ZERO);
    // A pause before the first readings would be no step.
    println!("waiting for a step");
    loop {
        thread::sleep(Duration::from_millis(20));
        let elapsed = start.elapsed();
        assert!(elapsed >= last, "Instant went back by {:?}", last - elapsed);
        assert!(elapsed < MAX_WAIT, "Instant has stepped, or the wall clock has not");
        last = elapsed;
        let step = ahead(start) - first;
        if milliseconds(step).unsigned_abs() >= MIN_STEP.as_millis() {
            println!("the wall clock has stepped by {} ms", milliseconds(step));
            return;
        }
    }
}
