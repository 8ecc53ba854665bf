//! Threads that compute.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Number of steps in a round of computing, which takes several microseconds.
const STEPS: u64 = 10_000;

/// Computes for a round.
pub(crate) fn round() {
    let mut value = black_box(1_u64);
    for _ in 0..STEPS {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(value);
}

/// Computes until `is_over` is set. Returns the number of rounds.
fn rounds_until(is_over: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !is_over.load(Ordering::Relaxed) {
        round();
        rounds += 1;
    }
    rounds
}

/// Threads that compute until they are stopped.
#[derive(Debug)]
pub(crate) struct Busy {
    threads: Vec<JoinHandle<u32>>,
    is_over: Arc<AtomicBool>,
    start: Instant,
}

impl Busy {
    /// Starts `count` threads.
    pub(crate) fn start(count: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let compute = || {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || rounds_until(&is_over))
        };
        let threads = (0..count).map(|_| compute()).collect();
        Self { threads, is_over, start: Instant::now() }
    }

    /// Stops the threads. Returns the number of rounds per second of all threads together.
    pub(crate) fn stop(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        let time = self.start.elapsed();
        let rounds = self.threads.into_iter().map(|thread| thread.join().map_or(0.0, f64::from));
        rounds.sum::<f64>() / time.as_secs_f64()
    }
}
