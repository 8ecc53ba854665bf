//! Many sleeps, and many more yields at the same time: nobody sleeps for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{PATIENCE, Random, cpus, in_threads};

/// Sleeps of all threads together, unless told a number.
const SLEEPS: usize = 2_000;

/// Yields for each sleep.
const YIELDS: usize = 100;

/// Longest sleep, in microseconds: short ones come close to what a switch takes.
const LONGEST: usize = 50;

/// How often somebody looks whether all make progress.
const LOOK: Duration = Duration::from_millis(100);

/// Threads that sleep and threads that yield, more of each than CPUs, and one that watches them. Whoever comes first to the end of
/// its part leaves the CPUs to the others, so that there are wake-ups on busy and on idle ones.
pub(crate) fn wake_ups(settings: &Settings) {
    let sleeps = settings.number.unwrap_or(SLEEPS);
    let (sleepers, yielders) = (4 * cpus() + 1, cpus() + 1);
    let steps: Vec<AtomicUsize> = (0..sleepers + yielders).map(|_| AtomicUsize::new(0)).collect();
    let part = |index| {
        if index < sleepers { sleeps.div_ceil(sleepers) } else { (sleeps * YIELDS).div_ceil(yielders) }
    };
    let start = Instant::now();
    in_threads(steps.len() + 1, |index| match steps.get(index) {
        Some(done) if index < sleepers => {
            let mut random = Random::new(index);
            for step in 1..=part(index) {
                let micros = u64::try_from(random.below(LONGEST + 1)).unwrap_or_default();
                thread::sleep(Duration::from_micros(micros));
                done.store(step, Ordering::Relaxed);
            }
        }
        Some(done) => (1..=part(index)).for_each(|step| {
            thread::yield_now();
            done.store(step, Ordering::Relaxed);
        }),
        None => watch(&steps, part),
    });
    println!("{sleeps} sleeps and {} yields in {:?}", sleeps * YIELDS, start.elapsed());
}

/// Fails if a thread that has not done its part does nothing for too long.
fn watch(steps: &[AtomicUsize], part: impl Fn(usize) -> usize) {
    let mut seen = vec![(0, Instant::now()); steps.len()];
    loop {
        let mut are_done = true;
        for (index, (step, last)) in steps.iter().zip(&mut seen).enumerate() {
            let now = step.load(Ordering::Relaxed);
            are_done &= now == part(index);
            if now != last.0 {
                *last = (now, Instant::now());
            }
            let is_late = now < part(index) && last.1.elapsed() > PATIENCE;
            assert!(!is_late, "thread {index} has done nothing for {PATIENCE:?} after {now} steps");
        }
        if are_done {
            return;
        }
        thread::sleep(LOOK);
    }
}
