//! Longest waits in random schedules.

extern crate std;

use super::{COMPUTING, MILLISECOND, SECOND, SLICE, Simulation, Then, generator};
use crate::policy::CREDIT_NS;
use std::vec::Vec;

/// Maximum time in nanoseconds for which a thread is ready without running, for each other thread that shares
/// its CPU. The other thread may be behind the virtual time by its credit, and the waiting thread may be
/// ahead of it by a slice. And when both are equal, the other thread may just have begun a slice.
const MAX_WAIT_NS: u64 = CREDIT_NS + 2 * SLICE;

/// Simulates random schedules on up to `max_cpus` CPUs: a part of the threads compute, the others sleep or
/// yield. Returns the longest time in nanoseconds for which a thread was ready without running, divided by
/// the number of other threads that share its CPU.
fn longest_wait(schedules: u32, max_cpus: u32) -> u64 {
    let mut next = generator(1);
    let waits = (0..schedules).map(|_| {
        let cpus = u32::try_from(1 + next(max_cpus.into())).unwrap_or(1);
        let count = 2 + next(7);
        let kinds: Vec<_> =
            (0..count).map(|_| (next(4), 1 + next(5 * MILLISECOND), 1 + next(10 * MILLISECOND))).collect();
        let mut part = generator(next(u64::MAX));
        let mut simulation = Simulation::with_cpus(cpus, kinds.len(), move |number| {
            let (kind, run_ns, sleep_ns) = kinds[number];
            let part = 1 + part(1_000);
            match kind {
                0 => COMPUTING,
                1 => (run_ns * part / 1_000, Then::Sleep(sleep_ns)),
                2 => (run_ns / 10 * part / 1_000, Then::Yield),
                _ => (run_ns / 100, Then::Sleep(sleep_ns * part / 1_000)),
            }
        });
        simulation.run(SECOND / 5);
        let waits = (0..simulation.progress.len()).map(|number| simulation.longest_wait(number));
        waits.max().unwrap_or_default() / (count.div_ceil(cpus.into()) - 1).max(1)
    });
    waits.max().unwrap_or_default()
}

#[test]
fn no_thread_waits_longer_than_its_bound() {
    for max_cpus in [1, 4] {
        let longest = longest_wait(300, max_cpus);
        assert!(longest < MAX_WAIT_NS, "{longest} ns on up to {max_cpus} CPUs");
    }
}

#[test]
#[ignore = "takes minutes, and gigabytes for threads that are never freed"]
fn no_thread_waits_longer_than_its_bound_in_a_million_schedules() {
    let longest = longest_wait(1_000_000, 4);
    assert!(longest < MAX_WAIT_NS, "{longest} ns");
}
