//! Many sleeps and many more yields at the same time: no wake-up is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{Random, TIMEOUT, cpus, in_threads};

/// Default number of sleeps of all threads together.
const DEFAULT_SLEEPS: usize = 2_000;

/// Number of yields per sleep.
const YIELDS_PER_SLEEP: usize = 100;

/// Maximum duration of a sleep in microseconds: about as long as a context switch.
const MAX_SLEEP_US: usize = 50;

/// Interval at which the watchdog checks the progress of all threads.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Runs sleeping and yielding threads, more of each than CPUs, and a watchdog. A thread that has done its
/// share ends and leaves the CPUs to the others, so that wake-ups meet busy and idle CPUs.
pub(crate) fn wake_ups(settings: &Settings) {
    let sleeps = settings.number.unwrap_or(DEFAULT_SLEEPS);
    let (sleepers, yielders) = (4 * cpus() + 1, cpus() + 1);
    let steps: Vec<AtomicUsize> = (0..sleepers + yielders).map(|_| AtomicUsize::new(0)).collect();
    let share = |index| {
        if index < sleepers {
            sleeps.div_ceil(sleepers)
        } else {
            (sleeps * YIELDS_PER_SLEEP).div_ceil(yielders)
        }
    };
    let start = Instant::now();
    in_threads(steps.len() + 1, |index| match steps.get(index) {
        Some(done) if index < sleepers => {
            let mut random = Random::new(index);
            for step in 1..=share(index) {
                let micros = u64::try_from(random.below(MAX_SLEEP_US + 1)).unwrap_or_default();
                thread::sleep(Duration::from_micros(micros));
                done.store(step, Ordering::Relaxed);
            }
        }
        Some(done) => (1..=share(index)).for_each(|step| {
            thread::yield_now();
            done.store(step, Ordering::Relaxed);
        }),
        None => watch(&steps, share),
    });
    println!("{sleeps} sleeps and {} yields in {:?}", sleeps * YIELDS_PER_SLEEP, start.elapsed());
}

/// Panics if a thread that has not done its share makes no progress for [`TIMEOUT`].
fn watch(steps: &[AtomicUsize], share: impl Fn(usize) -> usize) {
    let mut seen = vec![(0, Instant::now()); steps.len()];
    loop {
        let mut are_done = true;
        for (index, (step, last)) in steps.iter().zip(&mut seen).enumerate() {
            let now = step.load(Ordering::Relaxed);
            are_done &= now == share(index);
            if now != last.0 {
                *last = (now, Instant::now());
            }
            let is_late = now < share(index) && last.1.elapsed() > TIMEOUT;
            assert!(!is_late, "thread {index} has done nothing for {TIMEOUT:?} after {now} steps");
        }
        if are_done {
            return;
        }
        thread::sleep(WATCH_INTERVAL);
    }
}
